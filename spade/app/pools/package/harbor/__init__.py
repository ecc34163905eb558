"""The modules of a game in a container of Harbor. There they are the package `game`, with the program as a text."""
