//! The main job on a small scale: every file of the run's folder, the table, another evaluation, and the
//! memory of a long one.

use crate::common;
use crate::common::trainer::metrics;
use crate::common::{Project, RUN, row_of, set};
use longwave_eval::{ResultRow, Split};
use serde_json::Value;

#[test]
fn train_writes_the_runs_folder_and_prints_the_table() {
    let project = Project::new();
    let outcome = project.train(&[]);
    for name in [
        "config.toml",
        "metrics.jsonl",
        "checkpoints/last.safetensors",
        "checkpoints/best.safetensors",
        "tokenizer.json",
        "results.jsonl",
        "results.md",
        "results.csv",
        "report.html",
        "perplexity.svg",
        "perplexity.png",
    ] {
        assert!(project.exists(&format!("{RUN}/{name}")), "no {name}");
    }
    for part in ["device    CPU", "parameters", "MFLOP a token", "to train", "6 steps of 8 x 32 tokens"] {
        assert!(outcome.stderr.contains(part), "no `{part}` in {}", outcome.stderr);
    }
    for part in ["32 (L)", "64 (2L)", "direct", "linear", "ntk", "window_baseline"] {
        assert!(outcome.stdout.contains(part), "no `{part}` in {}", outcome.stdout);
    }
    let rows = project.results(RUN);
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| row.nll().is_finite()
        && row.values.get("nll_se").is_some()
        && row.values.get("bpb").is_some()));
    // At the training length every extension is the identity, and so is the baseline.
    let at_l: Vec<f64> = rows.iter().filter(|row| row.settings.length == 32).map(ResultRow::nll).collect();
    assert!(at_l.iter().all(|nll| nll.to_bits() == at_l[0].to_bits()), "{at_l:?}");
}

#[test]
fn the_resolved_config_trains_the_same() {
    let project = Project::new();
    project.train(&["--out", "a"]);
    let resolved = project.text("a/config.toml");
    project.write("small.toml", &resolved);
    project.train(&["--out", "b"]);
    let model = "checkpoints/last.safetensors";
    assert!(common::same(&project.path("a").join(model), &project.path("b").join(model)));
}

#[test]
fn eval_reads_a_run_by_every_protocol() {
    let project = Project::new();
    project.train(&[]);
    let lines = |arguments: &[&str]| {
        project.ok(&[&["eval", RUN, "--json", "--device", "cpu"], arguments].concat()).rows::<Value>()
    };
    let fixed = lines(&[
        "--lengths",
        "128",
        "--extend",
        "direct,ntk",
        "--extend",
        "{ kind = \"linear\", scale = 2.0 }",
    ]);
    assert_eq!(fixed.len(), 4);
    let multiples = lines(&["--lengths", "L,1.5L,64", "--extend", "direct", "--set", "max_length=4L"]);
    let lengths: Vec<u64> = multiples.iter().map(|row| row["length"].as_u64().unwrap()).collect();
    assert_eq!(lengths, [32, 48, 64, 32, 48, 64]);
    assert!(multiples.iter().all(|row| row["max_length"] == 128));
    assert_eq!(fixed[2]["extend_config"]["scale"], 2.0);
    let sliding =
        lines(&["--protocol", "sliding", "--set", "stride=16", "--lengths", "64", "--extend", "direct"]);
    assert_eq!((sliding.len(), &sliding[0]["stride"]), (2, &16.into()));
    let whole = lines(&["--protocol", "non_overlapping", "--lengths", "64", "--extend", "direct"]);
    // Every token but the first of each document is scored.
    let bytes: usize = (0..3).map(|i| project.read(&format!("corpus/test/{i}.txt")).len() - 1).sum();
    let limited: usize = 3 * 2 * 64;
    assert_eq!(whole[0]["tokens"], limited, "two windows of each of three documents");
    let by_position = ["--protocol", "by_position", "--lengths", "64", "--extend", "direct"];
    let all = lines(&[&by_position[..], &["--set", "windows_per_document=1000"]].concat());
    let places = all[0]["positions"].as_array().unwrap();
    let tokens: u64 = places.iter().map(|place| place["tokens"].as_u64().unwrap()).sum();
    assert!(tokens > limited as u64 && tokens <= bytes as u64);
    let best = lines(&["--checkpoint", "best", "--lengths", "32", "--extend", "direct"]);
    assert_eq!(best[0]["checkpoint"], "best");
}

#[test]
fn a_batch_of_blocks_reads_like_single_windows() {
    // The baseline at exact context agrees with the direct reading where both see the same tokens.
    let project = Project::new();
    project.train(&[]);
    let exact = ["eval", RUN, "--json", "--set", "exact=true", "--lengths", "32", "--extend", "direct"];
    let nll = project.ok(&exact).losses();
    assert!((nll[0] - nll[1]).abs() < 1e-6, "{nll:?}");
}

/// `direct` after a stage means as last trained, on the weights and with the reading of the checkpoint that is read.
#[test]
fn a_stage_becomes_part_of_the_encoding() {
    let project = Project::new();
    let stage = "stage=[{ length = 64, steps = 3, extend = \"linear\", learning_rate = 0.003 }]";
    let trained = project.train(&["--set", stage]);
    for part in ["stage 1   3 steps of 4 x 64 tokens", "read as `linear`", "stage 1 step 3/3"] {
        assert!(trained.stderr.contains(part), "no `{part}` in {}", trained.stderr);
    }
    let rows = project.results(RUN);
    assert!(rows.iter().all(|row| (row.stage, row.step, row.settings.train_length) == (1, 9, 32)));
    let nll = |checkpoint: &str, extend: &str| -> (u64, f64) {
        let arguments =
            ["eval", RUN, "--json", "--lengths", "64", "--extend", extend, "--checkpoint", checkpoint];
        let row = project.ok(&arguments).rows::<Value>().swap_remove(0);
        assert_eq!(row["checkpoint"], checkpoint);
        (row["stage"].as_u64().unwrap(), row["nll"].as_f64().unwrap())
    };
    assert_eq!(nll("last", "direct"), nll("stage-1", "direct"));
    let (before, after) = (nll("stage-0", "direct"), nll("stage-1", "direct"));
    assert_eq!((before.0, after.0), (0, 1));
    // The same weights: at stage 0 interpolation is an extension, at stage 1 it is what was trained.
    assert!((before.1 - nll("stage-0", "linear").1).abs() > 1e-7);
    let undone = "{ kind = \"frequencies\", inv_freq = [1.0, 0.31622776601683794, 0.1, 0.031622776601683795, 0.01, \
                  0.0031622776601683794, 0.001, 0.00031622776601683794] }";
    assert!((nll("stage-0", undone).1 - before.1).abs() < 1e-6);
    assert!((nll("stage-1", undone).1 - after.1).abs() > 1e-7);
    assert_eq!(project.run(&["eval", RUN, "--checkpoint", "stage-2"]).code, Some(1));
    assert_eq!(project.run(&["eval", RUN, "--checkpoint", "stage"]).code, Some(2));
}

/// One command, one table: sixteen readings at up to sixteen times the training length, sorted by the loss at 8L.
#[test]
fn many_extensions_make_one_sorted_table() {
    let project = Project::new();
    project.train(&["--set", "evaluate=[]"]);
    let kinds = "direct,linear,ntk,su_ntk_old,su_ntk_fixed,su_ntk_mixed,dynamic_ntk,ntk_by_parts,yarn,mrrope,rerope,\
                 leaky_rerope,self_extend,dual_chunk,lambda_mask,window";
    let outcome = project.ok(&["eval", RUN, "--lengths", "32,64,128,256,512", "--extend", kinds]);
    assert_eq!(outcome.stdout.matches("Perplexity of").count(), 1);
    assert!(outcome.stdout.contains("sorted by the perplexity at 256 (8L)"), "{}", outcome.stdout);
    let rows = project.results(RUN);
    assert_eq!(rows.len(), 17 * 5);
    let at_8l = |extend: &str| row_of(&rows, extend, 256).nll();
    let table = outcome.stdout.lines().skip_while(|line| !line.starts_with("extend ")).skip(1);
    let order: Vec<&str> = table.take(17).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert!(order.iter().all(|extend| kinds.contains(extend) || *extend == "window_baseline"), "{order:?}");
    assert!(order.windows(2).all(|pair| at_8l(pair[0]) <= at_8l(pair[1])), "{order:?}");
    assert!(outcome.stdout.contains("window_baseline <"));
}

/// Values given as lists are tried on the validation split, and the best is read on the test split and marked.
#[test]
fn the_best_value_of_a_list_is_chosen_on_validation() {
    let project = Project::new();
    project.train(&["--set", "evaluate=[]", "--set", "train.steps=20"]);
    let windows = "{ kind = \"rerope\", window = [1, \"L/4\", \"L/2\"] }";
    let search = "{ kind = \"longrope\", search = { budget = 12, population = 6, parents = 3 } }";
    let arguments = [
        "eval",
        RUN,
        "--lengths",
        "32,64,256",
        "--extend",
        "direct",
        "--extend",
        windows,
        "--extend",
        search,
    ];
    let outcome = project.ok(&arguments);
    let rows = project.results(RUN);
    let of = |split: Split, extend: &str| -> Vec<ResultRow> {
        rows.iter().filter(|row| row.settings.split == split && row.extend == extend).cloned().collect()
    };
    let (tried, reported) = (of(Split::Valid, "rerope"), of(Split::Test, "rerope"));
    assert_eq!((tried.len(), reported.len()), (9, 3));
    let loss = |rows: &[ResultRow]| rows.iter().map(ResultRow::nll).sum::<f64>();
    let best = tried.chunks(3).min_by(|a, b| loss(a).total_cmp(&loss(b))).unwrap();
    for (row, chosen) in reported.iter().zip(best) {
        assert_eq!(row.extend_config, chosen.extend_config);
        assert_eq!(row.chosen_among.as_ref().unwrap()["window"].as_array().unwrap().len(), 3);
    }
    let label =
        format!("rerope (window = {}) †", best[0].extend_config["window"].to_string().trim_matches('"'));
    assert!(outcome.stdout.contains(&label), "no `{label}` in {}", outcome.stdout);
    assert!(
        !outcome.stdout.contains("validation split)"),
        "one table, of the test split: {}",
        outcome.stdout
    );
    assert_eq!(outcome.stdout.matches("Perplexity of").count(), 1);
    // The search: factors from fast to slow never fall, and the row of its length is one of its measurements.
    let found = of(Split::Test, "longrope");
    let factors = |row: &ResultRow| -> Vec<f64> {
        let factors = row.extend_config["long_factor"].as_array().unwrap();
        factors.iter().map(|factor| factor.as_f64().unwrap()).collect()
    };
    assert_eq!((found.len(), factors(&found[0]).len()), (3, 8));
    assert!(factors(&found[0]).is_sorted() && factors(&found[0])[0] >= 1.0 && factors(&found[0])[7] <= 10.0);
    let on_validation = &of(Split::Valid, "longrope")[0];
    assert_eq!(on_validation.settings.length, 256);
    // It began with what `linear`, `yarn`, `ntk` and `direct` make of the frequencies, and is no worse than they are.
    let factor = |extend: &str| {
        let read = ["eval", RUN, "--json", "--lengths", "256", "--extend", extend];
        let more = set(&["split=valid", "windows_per_document=1"]);
        project.ok(&[&read[..], &more].concat()).losses()[0]
    };
    let ones = "{ kind = \"longrope\", long_factor = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0] }";
    let eights = "{ kind = \"longrope\", long_factor = [8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0] }";
    for extend in [ones, eights] {
        assert!(on_validation.nll() <= factor(extend), "{extend}");
    }
    // The same seed searches the same way.
    project.train(&["--set", "evaluate=[]", "--set", "train.steps=20", "--out", "again"]);
    let arguments = arguments.map(|argument| if argument == RUN { "again" } else { argument });
    project.ok(&arguments);
    let again = project.results("again");
    let again = again.iter().find(|row| row.extend == "longrope").unwrap();
    assert_eq!(factors(again), factors(on_validation));
}

#[test]
fn report_and_validate_and_schema() {
    let project = Project::new();
    project.train(&[]);
    std::fs::remove_file(project.path(RUN).join("report.html")).unwrap();
    project.ok(&["report", "runs"]);
    assert!(project.exists("runs/report.html"));
    for (changes, refusal) in [
        (&["model.head_dim=3"][..], "the head dimension 3 must be an even number"),
        (&["model.attention=linear", "position.kind=alibi"], "`alibi` acts on softmax scores"),
    ] {
        project.refuses(2, &[&["validate", "small.toml"], &set(changes)[..]].concat(), &[refusal]);
    }
    let resolved = project.ok(&["validate", "small.toml"]);
    assert_eq!(resolved.stdout.as_bytes(), project.read(&format!("{RUN}/config.toml")));
    let text = project.ok(&["schema"]).json().to_string();
    for key in ["batch_tokens", "windows_per_document", "qk_norm", "rope", "linear", "vocab_size"] {
        assert!(text.contains(&format!("\"{key}\"")), "no {key} in the schema");
    }
}

#[test]
fn every_part_of_the_model_trains() {
    let project = Project::new();
    for (index, changes) in [
        vec!["position.kind=none", "evaluate=[]"],
        vec!["position.kind=learned", "evaluate=[{ lengths = [64], extend = [\"linear\"] }]"],
        vec!["position.kind=sinusoidal", "model.norm=layer_norm", "model.tied=true"],
        vec!["position.layout=interleaved", "position.fraction=0.5", "model.feed_forward=swiglu"],
        vec!["model.qk_norm=key", "model.log_n=true", "model.dropout=0.1"],
        vec!["model.qk_norm=rms", "model.kv_heads=1", "model.norm_attention_output=true"],
        vec!["model.attention_gate=head", "model.attention_gate_bias=true", "model.canon=[\"attention\", \"feed_forward\"]"],
        vec!["model.attention=linear", "evaluate=[{ lengths = [300], extend = [\"direct\", \"ntk\"] }]"],
        vec!["position={ kind = \"complex_order\", complex = true }", "evaluate=[{ lengths = [64] }]"],
        vec![
            "position={ kind = \"mixed\", layers = [{ kind = \"rope\", window = 9 }, { kind = \"none\", log_n = true }] }",
        ],
        vec!["model.qk_norm=cosine", "model.head_dim=8", "train.schedule=wsd"],
        vec!["data.tokenizer={ kind = \"bpe\", vocab_size = 280 }", "train.sampling=shuffled"],
    ]
    .into_iter()
    .enumerate()
    {
        let folder = format!("run-{index}");
        project.train(&[&["--out", &folder], &set(&changes)[..]].concat());
        let losses: Vec<f64> = metrics(&project, &folder).iter().map(|metric| metric.loss).collect();
        assert!(losses.last() < losses.first(), "{changes:?}: {losses:?}");
    }
}

#[test]
fn reference_kernels_give_the_same_losses() {
    let project = Project::new();
    project.train(&["--out", "fused"]);
    project.train(&["--out", "reference", "--kernels", "reference"]);
    let nll = |folder: &str| -> Vec<f64> { project.results(folder).iter().map(ResultRow::nll).collect() };
    for (fused, reference) in nll("fused").iter().zip(nll("reference")) {
        assert!((fused - reference).abs() < 1e-4, "{fused} {reference}");
    }
}

/// Many thousand tokens with the main job's heads, in less than half the memory of all weights, whatever makes them. One layer is
/// enough: all weights of its four heads would be 4 GiB at 16,384 tokens and 1 GiB at 8,192.
#[cfg(target_os = "linux")]
#[test]
fn a_long_text_evaluates_in_bounded_memory() {
    for (attention, length) in
        [("softmax", 16_384), ("entmax", 8_192), ("lssar", 8_192), ("stick_breaking", 8_192)]
    {
        evaluates_in_bounded_memory(attention, length);
    }
}

#[cfg(target_os = "linux")]
fn evaluates_in_bounded_memory(attention: &str, length: u64) {
    let project = Project::new();
    project.write("corpus/test/long.txt", &common::text(4_200, 9));
    let sizes = ["--set", "model.layers=1", "--set", "model.width=128", "--set", "model.heads=4"];
    let short = ["--set", "train.length=128", "--set", "train.batch_tokens=1024", "--set", "train.steps=1"];
    let attention = format!("model.attention={attention}");
    project.train(&[&sizes[..], &short, &["--set", "evaluate=[]", "--set", &attention]].concat());
    let tokens = length.to_string();
    let (printed, peak) =
        common::peak_of(project.start(&["eval", RUN, "--lengths", &tokens, "--extend", "direct"]));
    assert!(printed.contains(&tokens), "{printed}");
    let weights = 4 * size_of::<f32>() as u64 * length * length / 1024;
    assert!((1 << 14..weights / 2).contains(&peak), "{attention}: {peak} KiB");
}
