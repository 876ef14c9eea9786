//! `longwave inspect` shows an encoding in full.

mod trained;

use crate::common::{Outcome, Project, set};
use longwave_position::encodings;
use serde_json::Value;
use std::f64::consts::TAU;

/// What the program prints of the small config with another encoding.
fn shown(position: &str, arguments: &[&str]) -> String {
    inspected(position, arguments).stdout
}

fn numbers(position: &str, arguments: &[&str]) -> Value {
    inspected(position, &[arguments, &["--json"]].concat()).json()[0].clone()
}

fn inspected(position: &str, arguments: &[&str]) -> Outcome {
    let set = format!("position={position}");
    Project::new().ok(&[&["inspect", "--config", "small.toml", "--set", &set], arguments].concat())
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
    project.refuses(
        1,
        &["inspect", "--config", "small.toml", "--length", "1000000000000"],
        &[
            "a picture of a text of 1000000000000 tokens needs about ",
            "hint: show a shorter text, with a smaller `--length`",
        ],
    );
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
    assert_eq!(buckets["rows"][10], serde_json::json!([10.0, 16.0, 22.0]));
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
        let picture = &project.ok(&arguments).json()[0];
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
    project.refuses(
        2,
        &[&["inspect", "--config", "small.toml"], &arguments[..]].concat(),
        &["`learned` has no vector for position 63"],
    );
}

#[test]
fn an_extension_that_lays_texts_out_changes_no_picture() {
    let project = Project::new();
    for extend in ["segments", "randpos"] {
        project.refuses(
            2,
            &["inspect", "--config", "small.toml", "--extend", extend],
            &["changes where the tokens of a text lie", "hint: "],
        );
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
fn wavelengths_are_rounded_after_scaling_in_training_and_in_reading() {
    for (resonant, extend) in [("true", "linear"), ("false", "{ kind = \"linear\", resonance = true }")] {
        let position = format!("{{ kind = \"rope\", resonance = {resonant} }}");
        let read = numbers(&position, &["--length", "128", "--extend", extend]);
        // A quarter of the frequency: 25.1 tokens, and not 4 times 6.
        let first = TAU / read["spectrum"]["bands"][0]["inv_freq_read"].as_f64().unwrap();
        assert!((first - 25.0).abs() < 1e-9, "{position} as {extend}: {first}");
    }
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
    assert_eq!(numbers("{ kind = \"rope\" }", &[])["layers"][0]["route"], "fused");
}

/// What `[model]` does to attention besides the encoding, as lines and as numbers.
#[test]
fn what_the_model_does_to_attention_is_said() {
    let lines = |position: &str, keys: &[&str]| {
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
    let gated = numbers("{ kind = \"rope\" }", &set(&["model.attention_gate=channel"]));
    assert_eq!(gated["model"][0]["setting"], "attention_gate = \"channel\"");
    assert!(!shown("{ kind = \"rope\" }", &[]).contains("\nmodel "));
}

#[test]
fn the_list_has_numbers_too() {
    let list = Project::new().ok(&["inspect", "--list", "--json"]).json();
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
    let project = Project::new();
    project.refuses(2, &["inspect"], &["no config is named"]);
    project.refuses(2, &["inspect", "--list", "--length", "4"], &["--list"]);
}

#[test]
fn pictures_are_written_as_files_with_a_page() {
    let project = Project::new();
    let arguments = ["inspect", "small.toml", "--length", "4L", "--extend", "yarn", "--out", "pictures"];
    let outcome = project.ok(&arguments);
    assert!(outcome.stderr.contains("the page is pictures/index.html"), "{}", outcome.stderr);
    for file in ["turns", "frequencies", "decay-trained", "decay-read", "logits"] {
        let svg = project.text(&format!("pictures/{file}.svg"));
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{file}");
        assert!(project.read(&format!("pictures/{file}.png")).starts_with(b"\x89PNG"), "{file}");
    }
    let page = project.text("pictures/index.html");
    assert!(page.contains("trained at L = 32, read at 128 as yarn"), "{page}");
    assert!(page.contains("<i>θ</i><sub><i>i</i></sub> = <i>b</i><sup>−2<i>i</i>/<i>d</i></sup>"), "{page}");
    assert!(page.contains("<p>Read as yarn:</p>\n<p class=\"formula\"><i>θ</i>′<sub>"), "{page}");
}

#[test]
fn an_encoding_that_reads_the_block_s_keys_is_shown() {
    let text = shown("{ kind = \"transformer_xl\", shared_key = true }", &[]);
    assert!(text.contains("acts on     q and k"), "{text}");
}
