#!/bin/sh
cd /tests && PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 exec python3 -m game.verify
