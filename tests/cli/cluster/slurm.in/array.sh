#!/bin/sh
#SBATCH --array=1-4
python train.py
