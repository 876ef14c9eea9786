use super::*;
use crate::picture::{Detail, View, pictures};
use burn::tensor::Device;
use longwave_position::reading::LogN;
use longwave_position::{Dimensions, ExtensionConfig, Init, Lengths, PositionConfig, encodings};

const SIZES: Dimensions =
    Dimensions { layers: 2, width: 32, heads: 2, kv_heads: 2, head_dim: 16, train_length: 16, vocab_size: 8 };

/// The pictures of an encoding, trained at 16 tokens and read at a length with an extension.
pub(super) fn looked_at(position: &str, length: usize, extend: &str) -> Vec<Picture> {
    let lengths = Lengths { train: 16, length };
    let init = Init::new(0, &Device::flex());
    let position = toml::Value::Table(position.parse().unwrap());
    let position = PositionConfig::from_value(&position, "position").unwrap();
    let trained = position.build("position", &SIZES, &init, LogN::Off).unwrap();
    let extend = ExtensionConfig::from_value(&extend.into(), "extend").unwrap();
    let read = extend.apply(&trained, lengths).unwrap();
    let view = View { lengths, dimensions: &SIZES, detail: Detail::Drawing };
    pictures(&trained, &read, &extend, &view).unwrap()
}

#[test]
fn every_encoding_has_a_picture() {
    for config in encodings::every() {
        let pictures = looked_at(&config, 16, "direct");
        let drawings = pictures.iter().flat_map(drawings).collect::<Vec<_>>();
        assert!(!drawings.is_empty(), "{config} has none");
        for drawing in drawings {
            let svg = drawing.svg().unwrap_or_else(|error| panic!("{config}: {}: {error}", drawing.file));
            assert!(svg.trim_end().ends_with("</svg>"));
        }
    }
}

#[test]
fn a_folder_has_the_pictures_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let pictures = looked_at("kind = 'alibi'", 64, "direct");
    let paths = write(&pictures, "an <encoding>", folder.path()).unwrap();
    let count = drawings(&pictures[0]).len();
    assert_eq!(paths.len(), 2 * count + 1);
    assert!(paths.iter().all(|path| path.is_file()));
    let page = std::fs::read_to_string(paths.last().unwrap()).unwrap();
    assert!(page.contains("<h1>an &lt;encoding&gt;</h1>"));
    assert_eq!(page.matches("<svg role=\"img\" aria-label=\"").count(), count);
    // Several encodings in a folder keep apart.
    let both = [pictures.clone(), looked_at("kind = 'rope'", 16, "direct")].concat();
    let paths = write(&both, "two", &folder.path().join("two")).unwrap();
    let names: Vec<String> =
        paths.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert!(
        names.contains(&"1-alibi-bias.svg".to_owned()) && names.contains(&"2-rope-turns.png".to_owned()),
        "{names:?}"
    );
}

#[test]
fn rotations_show_their_turns_before_and_after() {
    let drawings = drawings(&looked_at("kind = 'rope'", 64, "yarn")[0]);
    let files: Vec<&str> = drawings.iter().map(|drawing| drawing.file.as_str()).collect();
    assert_eq!(files, ["turns", "frequencies", "decay-trained", "decay-read", "logits"]);
    // 8 bands of base 10,000 and L = 16: 16 / (2 pi) = 2.5 turns of the first one, and 0.8 of the second.
    assert!(
        drawings[0].caption.starts_with("7 of 8 bands make less than one turn within L"),
        "{:?}",
        drawings[0].caption
    );
    assert!(drawings[3].caption.contains("it rises in "), "{}", drawings[3].caption);
}

#[test]
fn a_bias_has_a_line_for_every_head_and_a_mark_at_the_training_length() {
    let drawings = drawings(&looked_at("kind = 'alibi'", 64, "direct")[0]);
    let Form::Chart(chart) = &drawings[0].form else { panic!("{drawings:?}") };
    assert_eq!(chart.series.len(), 2);
    assert_eq!(chart.mark.as_ref().unwrap().1, "L = 16");
    // Slopes 2^-4 and 2^-8 of two heads.
    assert_eq!(chart.series[0].points[16].y, -1.0);
    assert_eq!(chart.series[1].points[16].y, -0.0625);
    let heads = drawings.iter().filter(|drawing| drawing.file.starts_with("logits-head-")).count();
    assert_eq!(heads, 2);
}

#[test]
fn a_chart_names_the_layer_that_it_shows_where_each_has_its_own() {
    let subtitle = |position: &str| {
        let drawings = drawings(&looked_at(position, 16, "direct")[0]);
        let Form::Chart(chart) = &drawings[0].form else { panic!("{drawings:?}") };
        chart.subtitle.clone()
    };
    assert_eq!(subtitle("kind = 'kerple'"), "L = 16; layer 0");
    assert_eq!(subtitle("kind = 'alibi'"), "L = 16");
}

/// The text of a picture tells what is no number from what is hidden.
#[test]
fn a_bias_that_is_no_number_is_shown_as_that() {
    // Within 64 L = 1024 tokens, which are checked, it is a number.
    let power =
        looked_at("kind = 'formula'\nbias = '-0.01*(1500 - n)^a'\nparameters = { a = 2.0 }", 2048, "direct");
    let text = power[0].text();
    let row = |distance: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(distance)).unwrap();
        line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("1501 "), ["NaN", "NaN"]);
    assert_eq!(row("1400 "), ["-100.0000", "-100.0000"]);
    assert!(!text.contains("hidden") && !text.contains("as trained"), "{text}");
    assert!(drawings(&power[0]).iter().all(|drawing| drawing.svg().is_ok()));
    let hard = looked_at("kind = 'hard_alibi'", 16, "direct")[0].text();
    assert!(hard.contains("hidden") && !hard.contains("NaN"), "{hard}");
}

#[test]
fn a_layer_says_what_its_log_n_counts() {
    let layers = "layers = [{ kind = 'rope', window = 4, log_n = 'learned' }, { kind = 'none', window = 4, log_n = true }]";
    let pictures = looked_at(&format!("kind = 'mixed'\n{layers}"), 16, "direct");
    let says = |index: usize, words: &str| {
        let text = pictures[index].text();
        assert!(
            text.contains(&format!(
                "layer {index} sees a window of 4, queries scaled by the number of {words}"
            )),
            "{text}"
        );
    };
    says(0, "keys that they see\n");
    says(1, "tokens so far\n");
}
