//! The program on a GPU: it trains, evaluates and resumes, names adapters, and computes in half precision.

use crate::common::{self, Project, halves, trainer};
use crate::{LOSS, MOVED, VOCABULARY, adapter, apart, difference, hold, is_long, lists};
use burn::tensor::Device;
use longwave_core::sealed_line;
use longwave_experiment::Config;
use longwave_kernels::{DeviceChoice, Precision, device};
use longwave_model::Gpt;
use longwave_position::Init;
use longwave_train::{Checkpoint, Outcome, parameters};
use std::io::{BufRead, BufReader};
use std::sync::LazyLock;

/// A fresh run of `small.toml` in `folder`, in this process, until `stop` has been asked so many times.
fn train_until(project: &Project, folder: &str, asked: usize, device: &Device) -> Outcome {
    assert!(!project.exists(folder), "the run is not fresh");
    trainer::train_until_on(project, folder, asked, &[""; 0], device)
}

/// What a run of `selfcheck` printed and remembered.
struct Selfcheck {
    outcome: common::Outcome,
    /// The file of the verdict, relative to a project.
    path: String,
    verdict: String,
}

/// One run of `selfcheck` for all tests, in the long form with its table: the checks take minutes on a driver in software.
static SELFCHECK: LazyLock<Selfcheck> = LazyLock::new(|| {
    let project = Project::new();
    // Devices in software add up fewer pairs of tokens than a longer text has ("long columns").
    let table: &[&str] = if is_long() { &["--full", "--lengths", "37,96"] } else { &[] };
    let outcome = project.run(&[&["selfcheck", "--device", "gpu"], table].concat());
    let folder = std::fs::read_dir(project.path(".cache/devices")).unwrap();
    let [name] = folder.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>().try_into().unwrap();
    let path = format!(".cache/devices/{}", name.to_str().unwrap());
    let verdict = project.text(&path);
    Selfcheck { outcome, path, verdict }
});

/// A project whose GPU is checked, and whose config names its folders in full, so that this process can read it too.
fn project() -> Project {
    let project = Project::new();
    project.write(&SELFCHECK.path, &SELFCHECK.verdict);
    let folder = |name: &str| toml::Value::from(project.path(name).to_string_lossy().into_owned());
    let data = format!("corpus = {}\ncache = {}", folder("corpus"), folder("cache"));
    let config = common::CONFIG.replace("corpus = \"corpus\"", &data);
    assert_ne!(config, common::CONFIG);
    project.write("small.toml", &config);
    project
}

fn weights(project: &Project, run: &str) -> Vec<Vec<f32>> {
    let path = project.path(run).join("checkpoints/last.safetensors");
    let checkpoint = Checkpoint::load(&path).unwrap();
    let config = Config::load(&project.path("small.toml"), &[]).unwrap();
    let resolved = config.run.model.resolve(VOCABULARY, config.run.train.length).unwrap();
    let device = Device::flex();
    let fresh = Gpt::new(&resolved, &config.run.position, &Init::new(1, &device)).unwrap();
    lists(parameters::values(&checkpoint.weights(fresh, &device).unwrap()))
}

#[test]
fn the_program_trains_evaluates_and_resumes() {
    let Some(gpu) = adapter("`longwave train --device gpu`") else { return };
    let project = project();
    let train = |run: &str, more: &[&str]| {
        let arguments = ["train", "--config", "small.toml", "--device", "gpu", "--out", run];
        project.ok(&[&arguments, more].concat())
    };
    let outcome = train("whole", &[]);
    let rows = project.results("whole");
    assert_eq!(rows.len(), 8);
    let name = device::open(DeviceChoice::Gpu(None)).unwrap().name;
    assert!(outcome.stderr.contains(&format!("device    {name}")), "{}", outcome.stderr);
    assert!(rows.iter().all(|row| row.device == name));

    // Two passes make a step: the third is thrown away, and read again.
    assert_eq!(train_until(&project, "stopped", 3, &gpu), Outcome::Interrupted);
    assert_eq!(Checkpoint::load(&project.path("stopped/checkpoints/last.safetensors")).unwrap().meta.step, 1);
    let outcome = train("stopped", &["--resume"]);
    assert!(outcome.stderr.contains("resuming after step 1"), "{}", outcome.stderr);
    let ends = weights(&project, "whole");
    for (whole, stopped) in ends.iter().zip(weights(&project, "stopped")) {
        hold("weights of a resumed run", difference(&stopped, whole), 1e-6);
    }

    // The same checkpoint, read by the CPU.
    std::fs::remove_file(project.path("whole/results.jsonl")).unwrap();
    project.ok(&["eval", "whole", "--device", "cpu"]);
    for (cpu, gpu) in project.results("whole").iter().zip(&rows) {
        assert_eq!((&cpu.extend, &cpu.settings, cpu.tokens), (&gpu.extend, &gpu.settings, gpu.tokens));
        assert_eq!(cpu.device, "CPU");
        hold(
            &format!("nll of {} at {}", cpu.extend, cpu.settings.length),
            (gpu.nll() / cpu.nll() - 1.0).abs(),
            LOSS,
        );
    }

    // So do runs trained on the two devices from one seed.
    project.train(&["--out", "cpu"]);
    let start = train_until(&project, "start", 0, &Device::flex());
    assert_eq!(start, Outcome::Interrupted);
    let start = weights(&project, "start");
    for ((cpu, gpu), start) in weights(&project, "cpu").iter().zip(&ends).zip(&start) {
        hold("weights after a run", apart(gpu, cpu, start), MOVED);
    }
}

/// Rewrites what is remembered of the GPU's checks.
fn remember(project: &Project, change: impl Fn(&str) -> String) {
    let path = &SELFCHECK.path;
    let mut known: serde_json::Value = serde_json::from_str(&change(&project.text(path))).unwrap();
    known.as_object_mut().unwrap().remove("checksum");
    project.write(path, &(sealed_line::seal(&known.to_string()) + "\n"));
}

/// That a command begins to check the GPU is seen; the checks themselves take minutes in software.
fn begins_to_check(project: &Project, arguments: &[&str]) -> bool {
    let mut command = project.start(arguments);
    let mut lines = BufReader::new(command.stderr.take().unwrap()).lines().map_while(Result::ok);
    let begins = lines.any(|line| line.starts_with("checking  "));
    command.kill().unwrap();
    command.wait().unwrap();
    begins
}

#[test]
fn a_gpu_is_checked_once_before_it_trains_and_refused_if_it_computes_wrong() {
    if adapter("the checks before a training").is_none() {
        return;
    }
    let project = project();
    let train =
        ["train", "--config", "small.toml", "--device", "gpu", "--set", "train.steps=2", "--out", "run"];
    std::fs::remove_file(project.path(&SELFCHECK.path)).unwrap();
    assert!(begins_to_check(&project, &train), "nothing is known of the GPU, and it trains unchecked");
    project.write(&SELFCHECK.path, &SELFCHECK.verdict);
    remember(&project, |text| text.replace("\"repeatable\":true", "\"repeatable\":false"));
    let known = project.ok(&train);
    assert!(!known.stderr.contains("checking  "), "{}", known.stderr);
    assert!(known.stdout.contains("does not repeat its sums bit for bit"), "{}", known.stdout);
    let rows = project.results("run");
    assert!(rows.iter().all(|row| row.repeatable == Some(false)));

    let failed = r#""failed":[{"name":"kernel: gelu","finding":"values: off by 3.0e-1"}]"#;
    remember(&project, |text| text.replace("\"failed\":[]", failed));
    project.run(&train).refuses(
        1,
        &["the first is `kernel: gelu` (values: off by 3.0e-1)", "\n\nhint: train with `--device cpu`"],
    );
    // What was trained before can be read, with a warning.
    let read = project.ok(&["eval", "run", "--device", "gpu"]);
    assert!(read.stderr.contains("trust no number that it makes"), "{}", read.stderr);
    // The plain operations are checked apart.
    let plain = [&train[..5], &["--kernels", "reference", "--out", "plain"]].concat();
    assert!(begins_to_check(&project, &plain), "plain operations train unchecked");
}

#[test]
fn an_adapter_that_is_not_there_is_named_with_those_that_are() {
    if adapter("`--device gpu:77` beside an adapter").is_none() {
        return;
    }
    let project = Project::new();
    let outcome = project.run(&["train", "--config", "small.toml", "--device", "gpu:77"]).refused(1);
    assert!(outcome.contains("`--device gpu:77`: there is no graphics adapter 77"), "{outcome}");
    let name = device::open(DeviceChoice::Gpu(Some(0))).unwrap().name;
    assert!(outcome.contains(&format!("hint: use `gpu:0` ({name})")), "{outcome}");
    assert!(!project.exists("runs"), "nothing is written");
}

/// The drivers are hidden from the program, so this runs everywhere.
#[cfg(target_os = "linux")]
#[test]
fn without_a_driver_gpu_is_an_error_and_auto_is_the_cpu() {
    let project = Project::new();
    let run = |device: &str| {
        let train = ["train", "--config", "small.toml", "--set", "train.steps=1", "--device", device];
        let drivers = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "__EGL_VENDOR_LIBRARY_FILENAMES"];
        let outcome =
            common::Outcome::of(project.command("", &train).envs(drivers.map(|name| (name, "none"))));
        (outcome.code, outcome.stderr)
    };
    for device in ["gpu", "gpu:0"] {
        let (code, stderr) = run(device);
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains(&format!("`--device {device}`: there is no graphics adapter")), "{stderr}");
        assert!(stderr.contains("hint: install") && stderr.contains("`--device cpu`"), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
    let (code, stderr) = run("auto");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("device    CPU"), "{stderr}");
}

/// The bound of `common/halves.rs` holds here as on the CPU; what the device does not have is refused.
#[test]
fn training_in_half_precision_agrees_with_f32_or_is_refused() {
    let Some(gpu) = adapter("training in half precision") else { return };
    let project = project();
    for precision in [Precision::F16, Precision::Bf16] {
        if precision.check("train.precision", &gpu).is_ok() {
            halves::hold_losses(precision, &gpu, 1);
            continue;
        }
        let set = format!("train.precision={precision}");
        let outcome =
            project.refused(2, &["train", "--config", "small.toml", "--device", "gpu", "--set", &set]);
        let start = format!("error: `train.precision = \"{precision}\"` is not allowed");
        // The first training on a device begins with its checks.
        assert!(outcome.contains(&start), "{outcome}");
        assert!(outcome.contains("it computes in \"f32\""), "{outcome}");
        assert!(outcome.contains("use `--device cpu`"), "{outcome}");
        assert!(!project.exists("runs"), "something was written");
    }
}

#[test]
fn a_run_in_f16_that_was_stopped_ends_with_the_same_bits() {
    let Some(gpu) = adapter("a stopped run in f16") else { return };
    if Precision::F16.check("train.precision", &gpu).is_err() {
        return;
    }
    let project = Project::new();
    let changes = ["train.precision=f16", "evaluate=[]"];
    let until = |folder: &str, asked| trainer::train_until_on(&project, folder, asked, &changes, &gpu);
    assert_eq!(until("whole", usize::MAX), Outcome::Done);
    assert_eq!(until("stopped", 5), Outcome::Interrupted);
    assert_eq!(until("stopped", usize::MAX), Outcome::Done);
    let last = |folder: &str| project.read(&format!("{folder}/checkpoints/last.safetensors"));
    assert!(last("whole") == last("stopped"));
}

#[test]
fn selfcheck_lists_every_adapter_with_what_it_has() {
    let Some(_) = adapter("`longwave selfcheck --list`") else { return };
    let outcome = Project::new().ok(&["selfcheck", "--list"]);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[0], "cpu    the CPU");
    let gpus = device::gpus();
    assert_eq!(lines.len(), 1 + gpus.len(), "{}", outcome.stdout);
    for (line, gpu) in lines[1..].iter().zip(gpus) {
        assert!(line.starts_with(&format!("{}  {}", gpu.choice, gpu.name.unwrap())), "{line}");
        assert!(line.contains(" shared by a group, ") && line.contains("f32"), "{line}");
    }
}

#[test]
fn everything_is_as_close_to_the_cpu_as_it_must_be() {
    let Some(_) = adapter("`longwave selfcheck`") else { return };
    let outcome = &SELFCHECK.outcome;
    let failed: Vec<&str> = outcome.stdout.lines().filter(|line| line.contains("FAIL")).collect();
    assert!(outcome.code == Some(0) && failed.is_empty(), "{failed:#?}\n{}", outcome.stderr);
    let count = |start: &str| outcome.stdout.lines().filter(|line| line.starts_with(start)).count();
    assert!(count("pass  encoding: ") >= 34 && count("pass  kernel: attention, ") >= 10);
    if is_long() {
        assert!(count("| encoding: ") >= 34 && count("| extension: ") >= 30 && count("| attention, ") >= 10);
    }
}
