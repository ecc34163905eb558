#!/bin/sh
cd /opt && PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 exec python3 -m game.play "$@"
