#!/bin/bash
# A sweep in a Slurm allocation: Ray on all nodes, the sweep on the first one.
#
#   sbatch examples/sweeps/slurm.sh FILE [further options of internalize sweep, such as --gpus 0.25]
#
# Submitted again, it goes on. Nodes, time and GPUs are set here or on sbatch's command line.
#SBATCH --job-name=internalize-sweep
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@180
set -euo pipefail

cpus=${SLURM_CPUS_PER_TASK:-1}
gpus=${SLURM_GPUS_ON_NODE:-0}
port=$((20000 + SLURM_JOB_ID % 20000))
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
ip=$(srun --nodes=1 --ntasks=1 --nodelist="$first" hostname --ip-address | awk '{print $1}')
address=$ip:$port
places=(--num-cpus="$cpus" --num-gpus="$gpus" --object-store-memory=200000000 --disable-usage-stats --block)

# Whoever holds the token may run code on the nodes: each allocation has one of its own, which srun hands on.
export RAY_AUTH_MODE=${RAY_AUTH_MODE:-token}
export RAY_AUTH_TOKEN=${RAY_AUTH_TOKEN:-$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')}

started=()
any_alive() {
  for process in "${started[@]}"; do if kill -0 "$process" 2>/dev/null; then return 0; fi; done
  return 1
}
stop_ray() {
  for process in "${started[@]}"; do kill "$process" 2>/dev/null || true; done
  for _ in {1..30}; do any_alive && sleep 1 || break; done
  for process in "${started[@]}"; do kill -KILL "$process" 2>/dev/null || true; done
}
trap stop_ray EXIT

srun --nodes=1 --ntasks=1 --nodelist="$first" \
  ray start --head --node-ip-address="$ip" --port="$port" --include-dashboard=false "${places[@]}" &
started+=($!)
until answer=$(ray health-check --address "$address" 2>&1); do
  if ! any_alive || [ "$SECONDS" -gt 300 ]; then
    echo "Ray does not answer at $address: ${answer##*$'\n'}" >&2
    exit 1
  fi
  sleep 1
done
if [ "$SLURM_JOB_NUM_NODES" -gt 1 ]; then
  others=$((SLURM_JOB_NUM_NODES - 1))
  srun --nodes="$others" --ntasks="$others" --exclude="$first" ray start --address="$address" "${places[@]}" &
  started+=($!)
fi

# In the background, so that the signal before the end of the allocation reaches it: every run in hand then
# writes a checkpoint.
internalize sweep "$@" --backend ray --address "$address" &
sweep=$!
trap 'kill -TERM "$sweep"' TERM
result=0
wait "$sweep" || result=$?
if kill -0 "$sweep" 2>/dev/null; then # the wait was cut short by the signal: wait for the checkpoints
  result=0
  wait "$sweep" || result=$?
fi
exit "$result"
