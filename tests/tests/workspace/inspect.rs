//! `longwave inspect` shows an encoding in full.

use crate::common::{Outcome, Project};
use longwave_position::encodings;
use serde_json::Value;

/// What the program prints of the small config with another encoding.
fn shown(position: &str, arguments: &[&str]) -> String {
    let project = Project::new();
    let set = format!("position={position}");
    let outcome = project.run(&[&["inspect", "--config", "small.toml", "--set", &set], arguments].concat());
    assert_eq!(outcome.code, Some(0), "{position}: {}", outcome.stderr);
    outcome.stdout
}

fn numbers(position: &str, arguments: &[&str]) -> Value {
    let text = shown(position, &[arguments, &["--json"]].concat());
    serde_json::from_str::<Value>(&text).unwrap()[0].clone()
}

#[test]
fn rotations_show_frequencies_decay_and_logits() {
    insta::assert_snapshot!(shown("{ kind = \"rope\" }", &["--length", "128", "--extend", "ntk"]));
}

#[test]
fn a_length_may_be_a_multiple_of_the_training_length() {
    let at = |length: &str| shown("{ kind = \"rope\" }", &["--length", length, "--extend", "ntk"]);
    assert_eq!(at("4L"), at("128"));
}

#[test]
fn a_length_that_no_memory_holds_is_refused() {
    let project = Project::new();
    let told = project.refused(1, &["inspect", "--config", "small.toml", "--length", "1000000000000"]);
    assert!(told.contains("a picture of a text of 1000000000000 tokens needs about "), "{told}");
    assert!(told.contains("hint: show a shorter text, with a smaller `--length`"), "{told}");
}

#[test]
fn a_geometry_bounds_the_distances() {
    insta::assert_snapshot!(shown("{ kind = \"rope\" }", &["--length", "64", "--extend", "rerope"]));
}

#[test]
fn waves_that_decay_show_their_half_lives() {
    insta::assert_snapshot!(shown("{ kind = \"xpos\", scale_base = 32.0 }", &["--length", "64"]));
}

#[test]
fn a_penalty_shows_its_slopes() {
    insta::assert_snapshot!(shown("{ kind = \"alibi\" }", &["--length", "128", "--extend", "linear"]));
}

#[test]
fn what_it_acts_on_is_that_of_the_config() {
    let acts = |position| numbers(position, &[])["acts"].clone();
    assert_eq!(acts("{ kind = \"shaw\" }"), serde_json::json!(["scores", "values"]));
    assert_eq!(acts("{ kind = \"shaw\", values = false }"), serde_json::json!(["scores"]));
}

#[test]
fn sixteen_buckets_are_the_printed_table() {
    let position = "{ kind = \"t5\", buckets = 16, max_distance = 128 }";
    insta::assert_snapshot!(shown(position, &["--length", "160"]));
    let buckets = &numbers(position, &["--length", "160"])["details"][0];
    let rows: Vec<[u64; 3]> = buckets["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| [0, 1, 2].map(|column| row[column].as_f64().unwrap() as u64))
        .collect();
    // 0 to 7 singly, then 8-11, 12-15, 16-22, 23-..
    assert_eq!(rows[7..11], [[7, 7, 7], [8, 8, 11], [9, 12, 15], [10, 16, 22]]);
    assert_eq!((rows[11][0], rows[11][1]), (11, 23));
    assert_eq!((rows.len(), rows[15][2]), (16, 159));
}

#[test]
fn digits_are_shown_as_they_are_read() {
    insta::assert_snapshot!(shown("{ kind = \"radix\" }", &["--length", "64", "--extend", "linear"]));
}

#[test]
fn vectors_are_drawn() {
    insta::assert_snapshot!(shown("{ kind = \"sinusoidal\" }", &[]));
}

#[test]
fn every_encoding_is_shown() {
    let project = Project::new();
    for entry in encodings::kinds() {
        let set = format!("position.kind={}", entry.kind);
        let arguments = ["inspect", "--config", "small.toml", "--set", &set, "--json"];
        let outcome = project.run(&arguments);
        assert_eq!(outcome.code, Some(0), "{}: {}", entry.kind, outcome.stderr);
        let picture: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let picture = &picture[0];
        assert_eq!(picture["encoding"], entry.kind);
        let values = picture["matrix"]["values"].as_array().unwrap();
        assert!(!values.is_empty(), "{}", entry.kind);
        let acts: Vec<&str> =
            picture["acts"].as_array().unwrap().iter().map(|act| act.as_str().unwrap()).collect();
        assert_eq!(picture["bias"].is_null(), !acts.contains(&"bias"), "{}: {acts:?}", entry.kind);
        let enters = acts.iter().any(|act| act.ends_with("input"));
        assert_eq!(picture["matrix"]["kind"] == "vectors", enters, "{}: {acts:?}", entry.kind);
    }
}

#[test]
fn what_is_shown_is_what_is_computed() {
    // ALiBi's penalty of the key n back, and RoPE's score of a vector with itself.
    let alibi = numbers("{ kind = \"alibi\" }", &["--length", "16"]);
    let distances: Vec<f64> =
        alibi["bias"]["distances"].as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect();
    for (head, slope) in [(0, 0.0625), (1, 0.003_906_25)] {
        for (index, n) in distances.iter().enumerate() {
            assert!((alibi["bias"]["read"][head][index].as_f64().unwrap() + slope * n).abs() < 1e-6);
        }
    }
    // The matrix says the same: key j of query i, both among the sampled positions.
    let logits = &alibi["matrix"]["values"][0];
    assert!((logits[15][0].as_f64().unwrap() + 0.0625 * 15.0).abs() < 1e-4, "{}", logits[15][0]);
    assert!(logits[0][15].is_null(), "a later key is hidden");
    let rope = numbers("{ kind = \"rope\" }", &["--length", "16"]);
    let mean = |n: f64| (0..8).map(|i| (n * 1e4f64.powf(-f64::from(i) / 8.0)).cos()).sum::<f64>() / 8.0;
    for (index, n) in distances.iter().enumerate() {
        let found = rope["decay"]["read"][0][index].as_f64().unwrap();
        assert!((found - mean(*n)).abs() < 1e-9, "{n}: {found}");
    }
    // Sixteen channels, all 1, and a scale of 1/4: the logit is 4 times the mean cosine.
    let far = rope["matrix"]["values"][1][15][0].as_f64().unwrap();
    assert!((far - 4.0 * (mean(15.0) - 1.0)).abs() < 1e-4, "{far}");
}

#[test]
fn a_temperature_divides_what_is_shown() {
    let halved = ["--length", "16", "--extend", "{ kind = \"direct\", temperature = 2.0 }"];
    let alibi = numbers("{ kind = \"alibi\" }", &halved);
    let row = |of: &str| alibi["bias"][of][0].as_array().unwrap().clone();
    for (trained, read) in row("trained").iter().zip(row("read")) {
        assert!((trained.as_f64().unwrap() / 2.0 - read.as_f64().unwrap()).abs() < 1e-12);
    }
    let far = alibi["matrix"]["values"][0][15][0].as_f64().unwrap();
    assert!((far + 0.0625 * 15.0 / 2.0).abs() < 1e-4, "{far}");
    // As a factor on cos and sin of q and of k.
    let yarn = numbers("{ kind = \"rope\" }", &["--extend", "{ kind = \"yarn\", temperature = 0.8 }"]);
    let factor = yarn["spectrum"]["attention_factor"].as_f64().unwrap();
    assert!((factor - 1.0 / 0.8f64.sqrt()).abs() < 1e-12, "{factor}");
    let own = yarn["decay"]["read"][0][0].as_f64().unwrap();
    assert!((own - 1.0 / 0.8).abs() < 1e-12, "{own}");
}

#[test]
fn logits_are_those_of_all_rows_before_and_of_any_attention() {
    // A gate of nothing is a half of each token: so much is lost with each row, shown or not.
    for length in ["33", "128"] {
        let fox = numbers("{ kind = \"fox\" }", &["--length", length]);
        let (matrix, bias) = (&fox["matrix"], &fox["bias"]["read"][0]);
        let positions = matrix["positions"].as_array().unwrap();
        let last = positions.len() - 1;
        let apart = positions[last].as_f64().unwrap() - positions[0].as_f64().unwrap();
        let expected = apart * bias[1].as_f64().unwrap();
        let found = matrix["values"][0][last][0].as_f64().unwrap();
        assert!((found - expected).abs() < 1e-3 * expected.abs(), "{length}: {found} {expected}");
    }
    for attention in ["entmax", "stick_breaking"] {
        let set = format!("model.attention=\"{attention}\"");
        let alibi = numbers("{ kind = \"alibi\" }", &["--length", "16", "--set", &set]);
        let far = alibi["matrix"]["values"][0][15][0].as_f64().unwrap();
        assert!((far + 0.0625 * 15.0).abs() < 1e-4, "{attention}: {far}");
    }
}

#[test]
fn what_scales_the_logits_is_shown_wherever_it_is() {
    let of = |position: &str, extend: &str| {
        let shown = numbers(position, &["--length", "4L", "--extend", extend]);
        let factor = shown["spectrum"]["attention_factor"].as_f64().unwrap();
        let own = shown["decay"]["read"][0][0].as_f64().unwrap();
        assert!((own - factor * factor).abs() < 1e-9, "{position} {extend}: {own} {factor}");
        factor
    };
    let yarn = 0.1 * 4f64.ln() + 1.0;
    for (position, extend, expected) in [
        ("rope", "yarn", yarn),
        ("pope", "yarn", yarn),
        ("rope", "{ kind = \"formula\", logit_scale = \"4 * s\" }", 4.0),
        (
            "rope",
            "{ kind = \"direct\", temperature_law = { kind = \"one_plus_log\", c = 0.5 } }",
            (1.0 + 0.5 * 4f64.ln()).sqrt(),
        ),
        // The mean factor on q.k of two heads is (2 + 0.5) / 2.
        ("rope", "{ kind = \"direct\", temperature = [[0.5, 2.0], [0.5, 2.0]] }", 1.25f64.sqrt()),
    ] {
        let found = of(&format!("{{ kind = \"{position}\" }}"), extend);
        assert!((found - expected).abs() < 1e-9, "{position} {extend}: {found} {expected}");
    }
}

#[test]
fn rows_that_are_never_trained_are_named() {
    for kind in ["learned", "multiplicative", "tupe"] {
        let past = |keys: &str| numbers(&format!("{{ kind = \"{kind}\"{keys} }}"), &[])["past"].clone();
        assert!(past("").as_str().unwrap().starts_with("no vector there"), "{kind}: {}", past(""));
        let larger = past(", table_size = 99");
        let rows =
            "rows 32 to 98 of the table, which texts of 32 tokens never train; past those: no vector there";
        assert!(larger.as_str().unwrap().starts_with(rows), "{kind}: {larger}");
    }
}

#[test]
fn a_length_that_is_refused_is_refused_here_too() {
    let project = Project::new();
    let arguments = ["--set", "position.kind=learned", "--length", "64"];
    let outcome = project.run(&[&["inspect", "--config", "small.toml"], &arguments[..]].concat());
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("`learned` has no vector for position 63"), "{}", outcome.stderr);
}

#[test]
fn an_extension_that_lays_texts_out_changes_no_picture() {
    let project = Project::new();
    for extend in ["segments", "randpos"] {
        let outcome = project.run(&["inspect", "--config", "small.toml", "--extend", extend]);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stdout);
        assert!(outcome.stderr.contains("changes where the tokens of a text lie"), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("hint: "), "{}", outcome.stderr);
    }
}

#[test]
fn the_slowest_band_is_interpolated_exactly() {
    let ntk = numbers("{ kind = \"rope\" }", &["--length", "128", "--extend", "ntk"]);
    let bands = ntk["spectrum"]["bands"].as_array().unwrap();
    assert_eq!(bands.len(), 8);
    let ratio = bands[7]["inv_freq"].as_f64().unwrap() / bands[7]["inv_freq_read"].as_f64().unwrap();
    assert!((ratio - 4.0).abs() < 1e-9);
    assert!(shown("{ kind = \"none\" }", &[]).contains("it is not made of frequencies"));
}

#[test]
fn a_base_that_is_the_length_is_named() {
    let base = ["--set", "position.base=\"L\""];
    let trained = shown("{ kind = \"rope\" }", &base);
    assert!(trained.contains("the base is L: `su_ntk_old` reads a longer text"), "{trained}");
    let read =
        shown("{ kind = \"rope\" }", &[&base[..], &["--length", "4L", "--extend", "su_ntk_old"]].concat());
    assert!(read.contains("the text is read with its length as the base (FMRoPE)"), "{read}");
    assert!(!shown("{ kind = \"rope\" }", &[]).contains("the base is L"));
}

#[test]
fn a_stack_says_what_each_layer_sees() {
    let stack = "{ kind = \"mixed\", layers = [{ kind = \"rope\", window = \"L/4\", sinks = 2 }, { kind = \"none\", \
                 log_n = true }] }";
    let text = shown(stack, &["--length", "128", "--extend", "ntk"]);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("layer")).collect();
    assert_eq!(
        lines,
        [
            "layer 0 sees a window of 8 and the first 2",
            "layer 1 sees every earlier key, queries scaled by the number of keys"
        ]
    );
}

/// The way that attention goes is said, and why where it takes longer.
#[test]
fn the_way_of_attention_is_said() {
    let way = |position: &str, arguments: &[&str]| {
        let text = shown(position, &[&["--length", "64"], arguments].concat());
        let line = text.lines().find(|line| line.starts_with("attention")).unwrap();
        line.trim_start_matches("attention").trim().to_owned()
    };
    let blocks = |why: &str| format!("in blocks of queries, since {why}");
    for (position, arguments, expected) in [
        ("{ kind = \"rope\" }", &[][..], "fused".to_owned()),
        ("{ kind = \"alibi\" }", &[], "fused".to_owned()),
        ("{ kind = \"rope\" }", &["--extend", "rerope"], "fused".to_owned()),
        ("{ kind = \"path\" }", &[], "fused, with the reflections of keys".to_owned()),
        ("{ kind = \"dape\" }", &[], "fused, with the network of all heads' scores".to_owned()),
        ("[{ kind = \"alibi\" }, { kind = \"kerple\" }]", &[], blocks("several encodings add to the scores")),
        (
            "{ kind = \"rope\" }",
            &["--extend", "dual_chunk"],
            blocks("its position maps are not chosen by the distance of rows"),
        ),
    ] {
        assert_eq!(way(position, arguments), expected, "{position} {arguments:?}");
    }
    let linear = shown("{ kind = \"rope\" }", &["--set", "model.attention=linear"]);
    assert!(linear.contains("attention   fused, by sums over the keys"), "{linear}");
    let entmax = shown("{ kind = \"rope\" }", &["--set", "model.attention=entmax"]);
    assert!(entmax.contains("attention   fused, with the weights of entmax"), "{entmax}");
    let json: Value = serde_json::from_str(&shown("{ kind = \"rope\" }", &["--json"])).unwrap();
    assert_eq!(json[0]["layers"][0]["route"], "fused");
}

/// What `[model]` does to attention besides the encoding, as lines and as numbers.
#[test]
fn what_the_model_does_to_attention_is_said() {
    let set =
        |keys: &[&'static str]| -> Vec<&'static str> { keys.iter().flat_map(|key| ["--set", key]).collect() };
    let lines = |position: &str, keys: &[&'static str]| {
        let text = shown(position, &set(keys));
        let lines = text.lines().skip_while(|line| !line.starts_with("model "));
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    };
    let some_heads = "{ kind = \"alibi\", heads = \"H/2\", slopes = \"linear\" }";
    let adaptive =
        lines(some_heads, &["model.attention=entmax", "model.log_n=adaptive", "model.log_n_bias=true"]);
    let stick = "model.attention={ kind = \"stick_breaking\", remainder = \"bias\" }";
    let all = [stick, "model.attention_gate=head", "model.norm_attention_output=true", "model.qk_norm=rms"];
    let canon = ["model.canon=[\"attention\", \"feed_forward\"]", "model.attention=lssar"];
    let all = lines("{ kind = \"none\" }", &all);
    insta::assert_snapshot!([adaptive, all, lines("{ kind = \"none\" }", &canon)].join("\n\n"));
    let keys = [&set(&["model.attention_gate=channel"])[..], &["--json"]].concat();
    let json: Value = serde_json::from_str(&shown("{ kind = \"rope\" }", &keys)).unwrap();
    assert_eq!(json[0]["model"][0]["setting"], "attention_gate = \"channel\"");
    assert!(!shown("{ kind = \"rope\" }", &[]).contains("\nmodel "));
}

fn listed(arguments: &[&str]) -> Outcome {
    Project::new().run(&[&["inspect"], arguments].concat())
}

#[test]
fn the_list_has_numbers_too() {
    let list: Value = serde_json::from_str(&listed(&["--list", "--json"]).stdout).unwrap();
    let of = |part: &str, kind: &str| {
        let entries = list[part].as_array().unwrap();
        entries.iter().find(|entry| entry["kind"] == kind).unwrap().clone()
    };
    assert_eq!(of("encodings", "learned")["acts"], serde_json::json!(["input"]));
    assert_eq!(of("encodings", "learned")["refuses"], true);
    assert_eq!(of("encodings", "index")["formula"], "x'_m = x_m + m w, w learned");
    assert_eq!(of("extensions", "su_ntk_fixed")["formula"], "θ'_i = θ_i s^{−2(i+1)/d}");
    assert!(list["symbols"].as_array().unwrap().iter().any(|symbol| symbol["symbol"] == "θ_i"), "{list}");
    assert_eq!(
        of("extensions", "rerope")["applies_to"],
        serde_json::json!(["rope", "xpos", "pope", "transformer_xl"])
    );
}

#[test]
fn a_list_needs_no_config_and_takes_none() {
    let outcome = listed(&[]);
    assert!(outcome.code == Some(2) && outcome.stderr.contains("no config is named"), "{}", outcome.stderr);
    let outcome = listed(&["--list", "--length", "4"]);
    assert!(outcome.code == Some(2) && outcome.stderr.contains("--list"), "{}", outcome.stderr);
}

#[test]
fn pictures_are_written_as_files_with_a_page() {
    let project = Project::new();
    let arguments = ["inspect", "small.toml", "--length", "4L", "--extend", "yarn", "--out", "pictures"];
    let outcome = project.run(&arguments);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the page is pictures/index.html"), "{}", outcome.stderr);
    for file in ["turns", "frequencies", "decay-trained", "decay-read", "logits"] {
        let svg = String::from_utf8(project.read(&format!("pictures/{file}.svg"))).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{file}");
        assert!(project.read(&format!("pictures/{file}.png")).starts_with(b"\x89PNG"), "{file}");
    }
    let page = String::from_utf8(project.read("pictures/index.html")).unwrap();
    assert!(page.contains("trained at L = 32, read at 128 as yarn"), "{page}");
    assert!(page.contains("<i>θ</i><sub><i>i</i></sub> = <i>b</i><sup>−2<i>i</i>/<i>d</i></sup>"), "{page}");
    assert!(page.contains("<p>Read as yarn:</p>\n<p class=\"formula\"><i>θ</i>′<sub>"), "{page}");
}

/// What training made of a learned table is not what it began as.
#[test]
fn a_trained_run_shows_its_parameters() {
    let project = Project::new();
    let train = ["train", "small.toml", "--set", "position={ kind = \"learned\" }", "--set", "evaluate=[]"];
    let outcome = project.run(&train);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let shown = |arguments: &[&str]| {
        let outcome = project.run(&[&["inspect", "runs/small-0", "--json"], arguments].concat());
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        serde_json::from_str::<Value>(&outcome.stdout).unwrap()[0]["matrix"]["values"].clone()
    };
    let [fresh, trained] = [shown(&[]), shown(&["--trained"])];
    assert_ne!(fresh, trained);
    assert_eq!(fresh[0].as_array().unwrap().len(), trained[0].as_array().unwrap().len());
    assert_ne!(shown(&["--trained", "--checkpoint", "previous"]), trained);
    let outcome = project.run(&["inspect", "runs/small-0", "--trained", "--out", "pictures"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let page = String::from_utf8(project.read("pictures/index.html")).unwrap();
    assert!(page.contains("<h1>small: learned after 6 steps</h1>"), "{page}");
    assert!(project.refused(2, &["inspect", "small.toml", "--trained"]).contains("holds no run"));
}

#[test]
fn an_encoding_that_reads_the_block_s_keys_is_shown() {
    let text = shown("{ kind = \"transformer_xl\", shared_key = true }", &[]);
    assert!(text.contains("acts on     q and k"), "{text}");
}

/// A small run that was trained, with keys of its config.
fn trained(set: &[&str]) -> Project {
    let project = Project::new();
    let set = [&["evaluate=[]"], set].concat();
    let set: Vec<&str> = set.into_iter().flat_map(|assignment| ["--set", assignment]).collect();
    project.train(&set);
    project
}

/// Where the run attends, as the picture of its first encoding has it.
fn attention(project: &Project, arguments: &[&str]) -> Value {
    let arguments = [&["inspect", "runs/small-0", "--trained", "--json"], arguments].concat();
    let outcome = project.run(&arguments);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    serde_json::from_str::<Value>(&outcome.stdout).unwrap()[0]["attention"].clone()
}

/// A number of a head, or of all heads of a layer.
fn share(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap()
}

/// The mean probabilities of a head by distance, with the first distance of each bin.
fn by_distance(attention: &Value, layer: usize, head: usize) -> Vec<(u64, f64)> {
    let bins = attention["distances"].as_array().unwrap();
    let given = attention["layers"][layer]["heads"][head]["probability"].as_array().unwrap();
    assert_eq!(bins.len(), given.len());
    bins.iter().zip(given).map(|(bin, p)| (bin[0].as_u64().unwrap(), p.as_f64().unwrap())).collect()
}

#[test]
fn a_trained_run_shows_where_it_attends() {
    let project = trained(&[]);
    let direct = attention(&project, &["--length", "4L"]);
    assert_eq!((&direct["split"], &direct["windows"]), (&"valid".into(), &8.into()));
    assert_eq!((&direct["tokens"], &direct["documents"]), (&serde_json::json!([128, 128]), &2.into()));
    let layers = direct["layers"].as_array().unwrap();
    assert_eq!((layers.len(), layers[0]["heads"].as_array().unwrap().len()), (2, 2));
    for layer in layers {
        let mean = &layer["mean"];
        let [within, beyond] = ["within_train_length", "beyond_train_length"].map(|name| share(mean, name));
        assert!((within + beyond - 1.0).abs() < 1e-5 && beyond > 0.2, "{mean}");
        // So soon after its beginning a model attends to everything alike: queries 64 to 127 see half of their text back.
        assert!((share(mean, "mean_distance") - 47.75).abs() < 8.0, "{mean}");
    }
    assert_eq!(direct, attention(&project, &["--length", "4L"]), "the same text each time");
    assert_ne!(direct, attention(&project, &["--length", "4L", "--extend", "ntk"]));
    // Nothing but the window: later bins are exactly empty.
    let window = attention(&project, &["--length", "4L", "--extend", "window"]);
    for (layer, head) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for (distance, given) in by_distance(&window, layer, head) {
            assert_eq!(given == 0.0, distance >= 32, "{distance}: {given}");
        }
        assert_eq!(window["layers"][layer]["heads"][head]["beyond_train_length"], 0.0);
    }
    let outcome = project.run(&["inspect", "runs/small-0", "--trained", "--length", "4L"]);
    let said = "attention by distance: mean over the queries in the second half of 8 windows of 128 tokens, from 2 documents of the \
                split `valid`\nlayer  head  mean distance  first token    last 8  within L  beyond L\n    0   all ";
    assert!(outcome.stdout.contains(said), "{}", outcome.stdout);
    let outcome = project.run(&["inspect", "runs/small-0", "--trained", "--out", "pictures"]);
    assert!(outcome.code == Some(0) && project.exists("pictures/attention.svg"), "{}", outcome.stderr);
    // The config alone has attended to nothing.
    let outcome = project.run(&["inspect", "runs/small-0", "--json"]);
    assert!(outcome.code == Some(0) && !outcome.stdout.contains("\"attention\""), "{}", outcome.stdout);
    // Without the text the pictures stay.
    let why = |project: &Project, arguments: &[&str]| {
        attention(project, arguments)["why_not"].as_str().unwrap().to_owned()
    };
    let long = why(&project, &["--length", "99999"]);
    assert!(long.contains("no document of the split `valid` of `corpus` has 99999 tokens"), "{long}");
    std::fs::rename(project.path("corpus"), project.path("elsewhere")).unwrap();
    let gone = why(&project, &[]);
    assert!(gone.contains("the text that `runs/small-0` was trained on is not found"), "{gone}");
}

#[test]
fn a_penalty_bends_the_attention() {
    let project = trained(&["position=alibi"]);
    let attention = attention(&project, &["--length", "4L"]);
    // Slopes of 1/16 and 1/256, and logits of nearly 0 so soon. All queries have keys at these distances.
    for (head, slope) in [(0, 0.0625_f64), (1, 0.003_906_25)] {
        let given = by_distance(&attention, 0, head);
        for (near, far) in [(1, 9), (9, 25), (9, 60)] {
            let expected = (slope * (far - near) as f64).exp();
            let found = given[near].1 / given[far].1;
            assert!((found / expected - 1.0).abs() < 0.15, "head {head}: {near} to {far}: {found}");
        }
    }
    let means = [0, 1].map(|head| share(&attention["layers"][0]["heads"][head], "mean_distance"));
    assert!(means[0] < 0.8 * means[1], "{means:?}");
}

#[test]
fn attention_without_a_softmax_says_what_it_is() {
    let why = attention(&trained(&["model.attention=linear"]), &[])["why_not"].as_str().unwrap().to_owned();
    assert!(why.starts_with("`model.attention = \"linear\"` has no attention probabilities"), "{why}");
    let stick = attention(&trained(&["model.attention=stick_breaking", "position=none"]), &[]);
    for layer in [0, 1] {
        let mean = &stick["layers"][layer]["mean"];
        assert_eq!(mean["probability"][0], 0.0, "a query does not see its own key");
        // Shares of nearly one half: 2^-16 and less is left after 16 keys and more.
        assert!((share(mean, "nearest") - (1.0 - 0.5_f64.powi(7))).abs() < 0.02, "{mean}");
        assert!((share(mean, "mean_distance") - 2.0).abs() < 0.2, "{mean}");
    }
}

/// Each picture has the layers that read its encoding.
#[test]
fn a_stack_attends_layer_by_layer() {
    let project = trained(&["position={ kind = \"mixed\", layers = [\"rope\", \"none\"] }"]);
    let outcome = project.run(&["inspect", "runs/small-0", "--trained", "--json"]);
    let pictures: Value = serde_json::from_str(&outcome.stdout).unwrap();
    for (picture, kind) in [(0, "rope"), (1, "none")] {
        assert_eq!(pictures[picture]["encoding"], kind);
        let layers = pictures[picture]["attention"]["layers"].as_array().unwrap();
        assert_eq!((layers.len(), &layers[0]["index"]), (1, &picture.into()));
    }
}

#[test]
fn a_task_and_a_memory_are_read_too() {
    let task = ["data={ task = { kind = \"copy\" } }", "position=[\"rope\", \"sink_logit\"]"];
    let attention_of_task = attention(&trained(&task), &["--length", "2L"]);
    assert_eq!((&attention_of_task["unit"], &attention_of_task["windows"]), (&"sequence".into(), &8.into()));
    // Logits of nearly 0, that of the sink among them: one of 49 keys on average goes to none.
    let to_none = share(&attention_of_task["layers"][0]["mean"], "to_no_key");
    assert!((0.01..0.04).contains(&to_none), "{to_none}");
    let memory =
        trained(&["position={ kind = \"transformer_xl\", memory = 8 }", "train.sampling=sequential"]);
    for (distance, given) in by_distance(&attention(&memory, &["--length", "4L"]), 1, 0) {
        assert_eq!(given == 0.0, distance >= 40, "a segment of 32 and 8 tokens before: {distance}: {given}");
    }
}
