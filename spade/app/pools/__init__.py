"""Import other people's programs as a pool, if they pass admission. Export environments in the forms of other tools."""
