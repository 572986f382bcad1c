/// Constants of an application in Sia's simulator, besides its tables.
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    /// Number of epochs of training; `None` for all epochs of the validation curves.
    pub epochs: Option<usize>,
    /// Seconds of a restart from a checkpoint.
    pub restart_s: f64,
    /// Factor on measured step times.
    pub slowdown: f64,
    /// Largest pass on a GPU type if it differs from the tables.
    pub most_per_gpu: fn(&str) -> Option<u32>,
    /// Number of GPUs of a replica on a GPU type.
    pub stages: fn(&str) -> u32,
    /// Number of samples of a pass of a replica with several stages; each sample is a micro-batch.
    pub micro_batches: u32,
}

/// Returns the constants of an application (Sia's artifact, `applications.py`).
pub fn constants(application: &str) -> Constants {
    let (epochs, restart_s, slowdown) = match application {
        "bert" => (Some(2), 120.0, 1.2),
        "cifar10" => (Some(100), 50.0, 1.8),
        "deepspeech2" => (Some(80), 25.0, 1.2),
        "gpt_pmp" => (Some(2), 30.0, 1.0),
        "imagenet" => (Some(90), 250.0, 1.2),
        "ncf" => (Some(10), 15.0, 1.5),
        "yolov3" => (Some(50), 80.0, 1.2),
        _ => (None, 30.0, 1.2),
    };
    Constants {
        epochs,
        restart_s,
        slowdown,
        most_per_gpu: match application {
            "deepspeech2" => |gpu_type| (gpu_type == "rtx").then_some(57),
            _ => |_| None,
        },
        stages: match application {
            "gpt_pmp" => |gpu_type| if gpu_type == "rtx" { 8 } else { 2 },
            _ => |_| 1,
        },
        micro_batches: 48,
    }
}
