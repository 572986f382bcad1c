#!/usr/bin/env python3
"""Write the inputs of the recorded cases. All jobs, models, speeds and times are invented.

Usage: python3 inputs.py [FOLDER]    (the folder of this file if left out)
"""
import json
import random
import sys
from pathlib import Path

HERE = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)


def write(path, text):
    path = HERE / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def rows(header, lines):
    return "\n".join([header, *(",".join(map(str, line)) for line in lines)]) + "\n"


def tiresias():
    """28 jobs of 1 to 8 GPUs for 3 nodes of 4. Some last longer than the limits of the queues."""
    rng = random.Random(101)
    submit, lines = 0, []
    for i in range(28):
        gpus = rng.choice([1, 1, 1, 2, 2, 4, 8])
        duration = rng.choice([60, 150, 400, 900, 1500, 3600, 5400]) + rng.randrange(60)
        lines.append([i, gpus, submit, duration * 4, rng.choice(["resnet50", "alexnet"]), duration, 30])
        submit += int(rng.expovariate(1 / 240))
    write("tiresias/inputs/jobs.csv", rows("job_id,num_gpu,submit_time,iterations,model_name,duration,interval", lines))
    write(
        "tiresias/inputs/n3g4.csv",
        rows("num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node", [[1, 3, 4, 32, 200]]),
    )


def synergy():
    """24 jobs of 1 to 8 GPUs that arrive over two hours, for 2 servers of 4 GPUs.

    The original knows its models by name; the profiles behind these names are invented.
    """
    rng = random.Random(202)
    profiles = {
        # cores, memory in GB, seconds an iteration, speedup over a fair share
        "alexnet": (11, 90, 0.8, 2.2),
        "res50": (5, 60, 1.3, 1.3),
        "gnmt": (2, 25, 0.4, 1),
    }
    models = {}
    for name, (cpus, mem, iter_time, speedup) in profiles.items():
        models[name + "_1"] = {
            "cpus": cpus, "mem": mem, "speed": 40, "batch": 64,
            "placement_penalty": 0.8 if name == "res50" else 1, "speedup": speedup, "iter_time": iter_time,
        }
    text = json.dumps({"cpu_points": [1], "mem_points": [1], "models": models}, indent=1)
    write("synergy/inputs/profiles.json", text + "\n")
    arrival, lines = 0.0, []
    for i in range(24):
        name = rng.choice(list(profiles))
        gpus = rng.choice([1, 1, 1, 2, 2, 4, 4, 8])
        seconds = rng.choice([500, 1200, 2500, 4000]) * rng.uniform(0.8, 1.2)
        lines.append(f"{i},{name},{arrival},{int(seconds / profiles[name][2])},{gpus}\n")
        arrival = round(arrival + rng.expovariate(1 / 300), 3)
    write("synergy/inputs/trace", "".join(lines))
    settings = {
        "racks": 1, "servers_per_rack": 2, "gpus_per_server": 4,
        "cpus_per_server": 16, "dram_per_server": 200, "sspeed_per_server": 400,
    }
    lines = [f"{name} = {value}" for name, value in settings.items()]
    write("synergy/inputs/cluster.ini", "\n".join(["[CLUSTER]", *lines, "[SCHEDULER]", "policy = FIFO", "lease_time = 5"]) + "\n")


def blox():
    """30 jobs of 1 to 4 GPUs, about 1.5 times what 2 nodes of 4 GPUs can do in that time."""
    rng = random.Random(303)
    arrival, lines = 0, []
    for i in range(30):
        arrival += int(rng.expovariate(1 / 700)) + 1
        gpus = rng.choice([1, 1, 1, 2, 2, 4])
        seconds = round(rng.choice([900, 2400, 6000, 14000]) * rng.uniform(0.8, 1.2), 3)
        lines.append([i, arrival, seconds, 1, gpus, 0])
    header = "job_id,arrival_s,total_iteration,iteration_time_s,num_gpus,model_class_id"
    write("blox/inputs/jobs.csv", rows(header, lines))


# The three types that the originals know by name, and invented models with steps a second on each.
TYPES = ("v100", "p100", "k80")
MODELS = {
    "Model-A (batch size 8)": (10.0, 5.0, 2.5),
    "Model-B (batch size 16)": (8.0, 7.0, 1.0),
    "Model-C (batch size 32)": (3.0, 2.75, 2.0),
    "Model-D (batch size 64)": (40.0, 12.0, 11.0),
}


def throughputs():
    """Speeds of the models alone, for 1, 2 and 4 GPUs. More GPUs help less on the older types."""
    table = {}
    for at, kind in enumerate(TYPES):
        speeds = table[kind] = {}
        for model, alone in MODELS.items():
            for gpus in (1, 2, 4):
                speeds[f"('{model}', {gpus})"] = {"null": round(alone[at] * gpus ** (0.9 - 0.1 * at), 4)}
    return table


def gavel():
    """24 jobs of 1 to 4 GPUs for 4 GPUs of each of two types and 6 of a third."""
    rng = random.Random(404)
    write("gavel/inputs/throughputs.json", json.dumps(throughputs(), indent=1) + "\n")
    arrival, lines = 0.0, []
    for _ in range(24):
        model = rng.choice(list(MODELS))
        gpus = rng.choice([1, 1, 1, 1, 2, 2, 4])
        steps = int(MODELS[model][0] * rng.choice([900, 2000, 5000]) * rng.uniform(0.8, 1.2))
        job = [model, "run", "dir", "-n", 0, steps, gpus, 1, "-1.000000", f"{arrival:.3f}"]
        lines.append("\t".join(map(str, job)) + "\n")
        arrival += rng.expovariate(1 / 250)
    write("gavel/inputs/jobs.trace", "".join(lines))


def shockwave():
    """20 jobs of 1 to 4 GPUs for 6 GPUs. Half of them change their batch while they run.

    The original knows two of its models by name, with the sizes of their data sets and the rules
    for changes of batches. The speeds are invented.
    """
    rng = random.Random(505)
    speeds = {}
    for family, base, batches in (("ResNet-18", 60.0, (32, 64, 128, 256)), ("LM", 45.0, (10, 20, 40, 80))):
        for k, batch in enumerate(batches):
            for gpus in (1, 2, 4):
                rate = round(base * 0.6**k * gpus**0.85, 4)
                speeds[f"('{family} (batch size {batch})', {gpus})"] = {"null": rate}
    write("shockwave/inputs/speeds.json", json.dumps({"v100": speeds}, indent=1) + "\n")
    samples = {"ResNet-18": 50000, "LM": 59675}
    arrival, lines = 0, []
    for _ in range(20):
        family, batch = rng.choice([("ResNet-18", 32), ("ResNet-18", 64), ("LM", 10), ("LM", 20)])
        gpus = rng.choice([1, 1, 1, 2, 2, 4])
        steps = rng.choice([12, 16, 24]) * -(-samples[family] // batch)
        mode = rng.choice(["static", "accordion"])
        kind = f"{family} (batch size {batch})"
        command = f"run --batch_size {batch}"
        lines.append("\t".join(map(str, [kind, command, "dir", "-n", 0, steps, gpus, mode, 1, -1, 1, arrival])) + "\n")
        arrival += int(rng.expovariate(1 / 60))
    write("shockwave/inputs/jobs.trace", "".join(lines))
    write("shockwave/inputs/gns_patterns.json", "{}\n")
    market = {
        "future_rounds": 12, "k": 1e-3, "lambda": 8.0, "rhomax": 1.0, "gpu_ram": 16,
        "log_approximation_bases": [0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
        "solver_rel_gap": 1e-3, "solver_num_threads": 2, "solver_timeout": 120,
    }
    write("shockwave/inputs/market.json", json.dumps(market, indent=1) + "\n")


def elasticflow():
    """24 jobs with deadlines for 2 nodes of 4 GPUs: some cannot be met, and three are best effort.

    The original has limits of GPUs for its models by name. The rates of two of them are invented.
    """
    rng = random.Random(606)
    counts = (1, 2, 4, 8)
    rates = {("resnet50", 64): 9.0, ("resnet50", 128): 5.0, ("gpt2", 128): 2.0}
    speed = {key: [round(rate * g**0.8, 4) for g in counts] for key, rate in rates.items()}
    for model in ("resnet50", "gpt2"):
        lines = [[batch, *speed[name, batch]] for name, batch in rates if name == model]
        header = ",".join(map(str, ("global_batch_size", *counts)))
        write(f"elasticflow/inputs/throughputs_A100/{model}.csv", rows(header, lines))
    submit, lines = 0, []
    for i in range(24):
        model, batch = rng.choice(list(rates))
        at = rng.choice([0, 0, 0, 1, 1, 2])
        duration = rng.choice([400, 1000, 2500, 5000]) + rng.randrange(200)
        iterations = int(duration * speed[model, batch][at])
        due = submit + int(duration * rng.choice([0.7, 1.2, 1.6, 3.0]))
        lines.append([i, submit, iterations, model, due, batch, counts[at], duration, int(i % 8 == 7)])
        submit += int(rng.expovariate(1 / 350))
    header = "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort"
    write("elasticflow/inputs/jobs.csv", rows(header, lines))
    header = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node"
    write("elasticflow/inputs/cluster_spec.csv", rows(header, [[1, 2, 4, 32, 200]]))


def lucid():
    """36 jobs of 1 to 12 GPUs for two virtual clusters of 3 and 2 nodes of 8 GPUs.

    The original has the names of both virtual clusters and the dates in its code. Models, profiles,
    speeds of pairs, estimates and the forecast are invented.
    """
    rng = random.Random(707)
    # Model: data set, batch, speed, use of a GPU and its memory, and the score for sharing.
    models = {
        "Model-A": ("Set-1", 32, 900, 25.0, 10.0, 2500.0, 0),
        "Model-B": ("Set-1", 64, 700, 45.0, 20.0, 5200.0, 1),
        "Model-C": ("Set-2", 16, 300, 70.0, 35.0, 9000.0, 1),
        "Model-D": ("Set-2", 8, 120, 96.0, 60.0, 17000.0, 2),
    }
    names = list(models)
    lines, pairs = [], []
    for name in names:
        data, batch, speed, util, mem_util, mem, score = models[name]
        lines.append([name, data, batch, 0, speed, util, mem_util, mem, score])
    header = "model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem,label"
    write("lucid/inputs/single_data.csv", rows(header, lines))
    for i, a in enumerate(names):
        for b in names[i:]:
            (x, y) = (models[a], models[b])
            load = (x[3] + y[3]) / 100
            speeds = [round(min(1.02, (1.3 - 0.1 * k) - 0.3 * load), 3) for k in (0, 1)]
            pairs.append([len(pairs), a, x[0], 1, x[1], 0, speeds[0], b, y[0], 1, y[1], 0, speeds[1], 90, 40, x[5] + y[5]])
    header = ",model1,dataset1,gpu_num1,batchsize1,amp1,speed1,model2,dataset2,gpu_num2,batchsize2,amp2,speed2"
    write("lucid/inputs/colocate_info.csv", rows(header + ",gpu_util,gmem_util,gmem", pairs))
    clusters = {"vc8Gr": 3, "vcefl": 2}
    write("lucid/inputs/vc_config.csv", rows(",num", clusters.items()))

    def job(number, vc, gpus, at, lasts, name):
        data, batch, speed, util, mem_util, mem, _ = models[name]
        head = [number, f"u{number % 5}", vc, f"n{number}", gpus, 6 * gpus, "COMPLETED", at, lasts]
        return [*head, data, name, batch, 0, speed, util, mem_util, mem]

    # The clock of the original starts at the first row, and its month at the next ones.
    log, estimates, at = [job(1, "vc8Gr", 1, "2020-04-01 00:00:00", 10, "Model-A")], [], 0
    for i in range(36):
        vc = rng.choice(["vc8Gr", "vc8Gr", "vcefl"])
        gpus = rng.choice([1, 2, 4, 4, 8, 8, 12]) if vc == "vc8Gr" else rng.choice([1, 2, 4, 4])
        lasts = rng.choice([90, 300, 900, 2400, 7000]) + rng.randrange(60)
        time = f"2020-09-01 {at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}"
        log.append(job(100 + i, vc, gpus, time, lasts, rng.choice(names)))
        estimates.append([100 + i, int(lasts * rng.uniform(0.5, 2)) if i % 9 else -50])
        at += int(rng.expovariate(1 / 90))
    header = "job_id,user,vc,jobname,gpu_num,cpu_num,state,submit_time,duration"
    write("lucid/inputs/cluster_full_log.csv", rows(header + ",dataset,model,batchsize,amp,speed,gpu_util,gmem_util,gmem", log))
    write("lucid/inputs/Venus_Sept_ebm_weekly_updated.csv", rows("job_id,priority", estimates))
    write("lucid/inputs/Venus_Sept_lgb.csv", rows("job_id,priority", [[i, max(e, 20)] for i, e in estimates]))
    lines = []
    for i in range(48):
        forecast = 6 if i % 6 < 3 else 1.5
        time = f"2020-09-01 {i // 6:02}:{i % 6 * 10:02}:00"
        lines.append([time, 5, 20, forecast, forecast * 4])
    header = "time,submit_gpu_job,submit_gpu_num,pred_gpu_job,pred_gpu_num"
    write("lucid/inputs/Venus_throughput_pred.csv", rows(header, lines))


def sia():
    """12 jobs that tune their batch, for 2 nodes of 4 `aws` GPUs and one of 8 `rtx` GPUs.

    The original has the numbers of epochs and the delays of restarts of its applications by name.
    The step times, the gradients and the progress of two of them are invented.
    """
    rng = random.Random(808)
    # Application: seconds a pass and a sample, samples of a pass, batches, epochs, iterations, noise.
    applications = {
        "bert": (0.08, 0.03, (4, 8, 12), (12, 24, 48, 96), 2, 3000, 6.0),
        "ncf": (0.03, 0.00004, (2048, 4096, 8192), (8192, 16384, 32768), 10, 500, 3.0),
    }
    # Type: factor on the times, seconds of a sum on a node and between nodes, placements.
    types = {
        "aws": (1.0, 0.02, 0.12, (1, 2, 3, 4, 11, 12, 13, 14, 22, 23, 24, 33, 34, 44)),
        "rtx": (0.7, 0.01, 0.08, (1, 2, 3, 4, 5, 6, 7, 8)),
    }
    for name, (fixed, each, passes, batches, epochs, iterations, noise) in applications.items():
        for kind, (factor, inside, between, placements) in types.items():
            lines, spread = [], []
            for placement in placements:
                digits = [int(d) for d in str(placement)]
                sync = 0.0005 if placement == 1 else between if len(digits) > 1 else inside
                for samples in passes:
                    step = factor * (fixed + each * samples) + sync
                    lines.append([placement, samples, round(step, 5), sync])
                    if placement in (1, 4, 8, 11, 44):
                        spread.append([len(digits), sum(digits), samples, round(step, 5), sync])
            folder = f"sia/inputs/traces-sia/{name}"
            write(f"{folder}/placements-{kind}.csv", rows("placement,local_bsz,step_time,sync_time", lines))
            write(f"{folder}/scalability-{kind}.csv", rows("num_nodes,num_replicas,local_bsz,step_time,sync_time", spread))
        for batch in batches:
            scale, lines = batch / batches[0], []
            for epoch in range(1, epochs + 1):
                var, sqr = noise * epoch, 1.0
                gain = (var + sqr) / (var / scale + sqr)
                done = iterations * epoch
                lines.append([done, int(done / gain), round(0.5 + 0.04 * epoch, 3), sqr, var])
            write(f"{folder}/validation-{batch}.csv", rows("progress,iteration,metric,grad_sqr,grad_var", lines))
    at, lines = 0, []
    for i in range(12):
        name = rng.choice(["bert", "bert", "ncf"])
        at += 60 + rng.randrange(60)
        lines.append([f"{name}-{i}", at, name, rng.choice([1, 2, 4]), applications[name][3][-1]])
    write("sia/inputs/workload.csv", rows("name,time,application,num_replicas,batch_size", lines))


def chronus():
    """30 jobs with deadlines in minutes for 16 GPUs: strict, soft with three values, or none."""
    rng = random.Random(909)
    at, lines = 0, []
    for i in range(30):
        gpus, lasts = rng.choice([1, 1, 2, 4, 4, 8]), rng.choice([15, 45, 120, 240]) + rng.randrange(10)
        kind = rng.choice(["strict", "strict", "soft", "best"])
        first = int(lasts * rng.choice([1.1, 1.5, 3]))
        times = "-".join(str(first * k) for k in (1, 2, 3)) if kind == "soft" else first
        values = "10-7-3" if kind == "soft" else 10
        lines.append([i, f"u{i % 3}", gpus, at, 60 * lasts, "alexnet", lasts, 5, times, values, int(kind == "best"), kind])
        at += int(rng.expovariate(1 / 18))
    header = "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval"
    write("lucid/inputs/trace.csv", rows(header + ",expect_time_list,expect_value_list,best_effort,job_type", lines))


for system in (blox, tiresias, synergy, gavel, shockwave, elasticflow, lucid, chronus, sia):
    system()
