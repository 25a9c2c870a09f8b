#!/bin/bash
sed -i 's/argv\[0\]/argv[1]/' greet.py
