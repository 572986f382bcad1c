#!/bin/sh
#SBATCH --gpus-per-node=2 --mem=1G
python train.py "$@"
