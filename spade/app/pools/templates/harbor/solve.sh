#!/bin/sh
set -e
{% for action in actions %}
play {{ action }}
{% endfor %}
