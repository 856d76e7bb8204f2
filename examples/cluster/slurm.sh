#!/bin/bash
# A run on four machines, one rank on each, with all of its cores: sbatch slurm.sh
# The plan, its data and the run folder lie where every machine sees them under the same path.
#SBATCH --job-name=dapple
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=08:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
set -euo pipefail
module load openmpi
plan=$SLURM_SUBMIT_DIR/plan.toml
run=$SLURM_SUBMIT_DIR/runs/cluster

# After a time limit or a lost machine the job comes again, perhaps with other machines, and goes on.
if [ -e "$run/ledger.jsonl" ]; then
    srun --mpi=pmix --cpu-bind=cores dapple resume "$run"
else
    srun --mpi=pmix --cpu-bind=cores dapple train "$plan" --out "$run" --device cpu
fi
