"""The commands. One file has a command's options, work and output. Heavy modules are imported when the work begins."""
