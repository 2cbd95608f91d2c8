#!/bin/sh
# To be written.
exec kafka-twin "$@"
