use super::*;
use crate::reading::LogN;
use crate::testing;

const LENGTHS: Lengths = Lengths { train: 16, length: 16 };

fn read(text: &str) -> Result<TrainingPositions> {
    let table: toml::Table = text.parse().unwrap();
    let positions: TrainingPositions = longwave_core::config::read(&table, "train.positions")?;
    positions.validate("train.positions", LENGTHS)?;
    Ok(positions)
}

fn message_of(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

fn reading(position: &str, log_n: LogN) -> Reading {
    let table = format!("{{ {} }}", position.trim().replace('\n', ", "));
    testing::reading(&table, &testing::dimensions(), log_n).unwrap()
}

const EVERY: [&str; 6] = [
    "kind = \"contiguous\"",
    "kind = \"randpos\"\nmax_position = 64",
    "kind = \"pose\"",
    "kind = \"offset\"\nmax_position = \"4L\"",
    "kind = \"segments\"\ncount = 4",
    "kind = \"segments\"\ncount = 2\nmax_position = 64",
];

#[test]
fn what_is_read_is_written() {
    for text in EVERY {
        let positions = read(text).unwrap();
        let written = toml::Table::try_from(&positions).unwrap();
        assert_eq!(
            longwave_core::config::read::<TrainingPositions>(&written, "").unwrap(),
            positions,
            "{text}"
        );
        assert_eq!(written["kind"].as_str(), Some(positions.kind()));
    }
    assert_eq!(read("kind = \"randpos\"").unwrap().reach(LENGTHS), 2048);
}

#[test]
fn strangers_and_too_few_positions_are_named() {
    assert!(message_of("kind = \"randpos\"\nmax_positon = 3").contains("did you mean `max_position`?"));
    assert!(message_of("kind = \"rand\"").contains("randpos"));
    let stranger = message_of("kind = \"randpos\"\ncount = 3");
    let takes = "kind \"randpos\" takes `max_position` and no other key; `count` has no meaning for it";
    assert!(stranger.contains(takes), "{stranger}");
    assert!(
        message_of("kind = \"contiguous\"\ncount = 3\nspan = 2").contains("`count`, `span` have no meaning")
    );
    for (kind, key) in [("offset", "max_position"), ("segments", "count")] {
        let missing = message_of(&format!("kind = \"{kind}\""));
        assert!(missing.starts_with(&format!("`train.positions.{key}` is missing")), "{missing}");
        let example = missing.split('`').nth(3).unwrap();
        let whole: toml::Table = format!("positions = {example}").parse().unwrap();
        let positions = TrainingPositions::deserialize(whole["positions"].clone()).unwrap();
        assert_eq!(positions.kind(), kind, "{missing}");
    }
    assert!(message_of("kind = \"segments\"\ncount = 0").starts_with("`train.positions.count = 0`"));
    let few = message_of("kind = \"pose\"\nmax_position = 12");
    assert!(few.contains("`train.positions.max_position = 12` is not allowed: a row of 16 tokens"), "{few}");
}

#[test]
fn a_draw_depends_on_seed_and_step_alone() {
    for text in EVERY {
        let positions = read(text).unwrap();
        let draw = |seed, step| positions.draw(seed, step, 4, LENGTHS);
        let late = draw(1, 77);
        let _ = draw(1, 5);
        assert_eq!(draw(1, 77), late, "{text}");
        if positions.reach(LENGTHS) > LENGTHS.length {
            assert_ne!(draw(1, 78), late, "{text}");
            assert_ne!(draw(2, 77), late, "{text}");
        }
        for step in 0..50 {
            let drawn = draw(3, step).positions;
            assert_eq!(drawn.length(), 16);
            assert!([1, 4].contains(&drawn.rows()), "{text}");
            assert!(drawn.largest().unwrap() < positions.reach(LENGTHS) as f64, "{text}");
            for row in drawn.values().chunks(16) {
                assert!(row.windows(2).all(|pair| pair[0] < pair[1]) && row[0] >= 0.0, "{text}: {row:?}");
            }
        }
    }
}

#[test]
fn a_draw_does_not_change_how_many_keys_a_row_sees() {
    for text in EVERY {
        let positions = read(text).unwrap().draw(3, 5, 4, LENGTHS).positions;
        let row: Vec<f64> = (1..=16).map(f64::from).collect();
        assert_eq!(positions.keys_seen().collect::<Vec<_>>(), row.repeat(positions.rows()), "{text}");
    }
}

#[test]
fn draws_never_change() {
    // Runs that are stored resume only as long as these stand.
    let draw = |text: &str| read(text).unwrap().draw(0, 0, 1, LENGTHS).positions.values().to_vec();
    assert_eq!(draw("kind = \"randpos\"\nmax_position = 64"), RANDPOS);
    assert_eq!(draw("kind = \"offset\"\nmax_position = 64")[0], OFFSET);
    assert_eq!(draw("kind = \"pose\""), POSE);
}
const RANDPOS: [f64; 16] =
    [3.0, 9.0, 22.0, 23.0, 25.0, 26.0, 28.0, 40.0, 46.0, 47.0, 50.0, 51.0, 52.0, 53.0, 60.0, 62.0];
const OFFSET: f64 = 47.0;
const POSE: [f64; 16] =
    [0.0, 1.0, 2.0, 91.0, 92.0, 93.0, 94.0, 95.0, 96.0, 97.0, 98.0, 99.0, 100.0, 101.0, 102.0, 103.0];

#[test]
fn randpos_draws_every_position_as_often() {
    let mut counts = [0u32; 8];
    for step in 0..8000 {
        let mut stream = Stream::new(0, "test", step);
        for position in randpos::sample(&mut stream, 3, 8) {
            counts[position] += 1;
        }
    }
    assert!(counts.iter().all(|count| (2_800..3_200).contains(count)), "{counts:?}");
}

#[test]
fn pose_reaches_both_ends_of_its_ranges() {
    let positions = read("kind = \"pose\"\nmax_position = 18\nmax_skip = 1").unwrap();
    let (mut splits, mut shifts, mut skips) = ([0; 17], [0; 3], [0; 2]);
    for step in 0..200 {
        let Draw { positions, tokens } = positions.draw(0, step, 1, LENGTHS);
        let (row, tokens) = (positions.values(), &tokens.unwrap()[0]);
        // Where nothing is left out the split cannot be seen.
        let split = row.windows(2).position(|pair| pair[1] - pair[0] > 1.0).map_or(0, |at| at + 1);
        splits[split] += 1;
        shifts[row[15] as usize - 15] += 1;
        skips[tokens[15] - 15] += 1;
    }
    assert!(splits[1] > 0 && splits[8] > 0 && splits[9..].iter().all(|&count| count == 0), "{splits:?}");
    assert!(shifts.iter().chain(&skips).all(|&count| count > 30), "{shifts:?} {skips:?}");
    assert_eq!(positions.text_length(LENGTHS), 17);
}

#[test]
fn what_an_encoding_cannot_learn_from_is_refused() {
    let check = |text: &str, position: &str, log_n| {
        read(text).unwrap().check("train.positions", &reading(position, log_n), LENGTHS)
    };
    let message = |text, position| {
        let error = check(text, position, LogN::Off).unwrap_err();
        assert!(error.hint_text().is_some(), "{error}");
        error.to_string()
    };
    let (randpos, offset) = ("kind = \"randpos\"\nmax_position = 64", "kind = \"offset\"\nmax_position = 64");
    assert!(message(randpos, "kind = \"fox\"").contains("reads the order of the tokens alone"));
    assert!(message(randpos, "kind = \"causal_conv\"").contains("reads the order of the tokens alone"));
    assert!(message(offset, "kind = \"rope\"").contains("does not see a shift"));
    let short = message(randpos, "kind = \"learned\"");
    assert!(short.contains("positions up to 63") && short.contains("table_size"), "{short}");
    assert!(message(randpos, "kind = \"learned\"\npast_table = \"interpolate\"").contains("no vector"));
    assert!(message(randpos, "kind = \"radix\"\nbeta = 4\ndigits = 2").contains("digits"));
    assert!(check(randpos, "kind = \"learned\"\ntable_size = 64", LogN::Off).is_ok());
    assert!(check(offset, "kind = \"sinusoidal\"", LogN::Off).is_ok());
    let list = "kind = \"mixed\"\nlayers = [{ encodings = [\"rope\", \"shaw\"] }]";
    assert!(check(offset, list, LogN::Off).is_ok());
    // Log-n counts keys, whatever their positions.
    let scaled = LogN::Trained { train_length: 16 };
    let hidden = |text, position| check(text, position, scaled).unwrap_err().to_string();
    assert!(hidden(offset, "kind = \"rope\"").contains("does not see a shift"));
    assert!(hidden(randpos, "kind = \"none\"").contains("reads the order of the tokens alone"));
    assert!(check(randpos, "kind = \"rope\"", scaled).is_ok());
    for entry in crate::encodings::kinds() {
        let position = format!("kind = \"{}\"", entry.kind);
        assert!(check("kind = \"segments\"\ncount = 4", &position, LogN::Off).is_ok(), "{position}");
    }
}

#[test]
fn what_is_read_of_positions_is_the_most_that_any_layer_reads() {
    let of = |layers: &str| {
        let position = format!("kind = \"mixed\"\nlayers = [{layers}]");
        reading(&position, LogN::Off).position_use()
    };
    assert_eq!(of("\"none\", \"cope\""), PositionUse::Order);
    assert_eq!(of("\"none\", { kind = \"none\", window = 4 }"), PositionUse::Distances);
    assert_eq!(of("\"none\", \"rope\""), PositionUse::Distances);
    assert_eq!(of("\"none\", { kind = \"rope\", window = 4, sinks = 1 }"), PositionUse::Positions);
    assert_eq!(of("\"rope\", { kind = \"none\", log_n = true }"), PositionUse::Distances);
    assert_eq!(of("\"fox\", { kind = \"none\", log_n = true }"), PositionUse::Order);
    assert_eq!(of("\"rope\", \"recursive\""), PositionUse::Positions);
    assert_eq!(of("\"none\", { kind = \"recursive\", variant = \"rnn\" }"), PositionUse::Order);
    // What reads q and k in a layer that turns them reads them turned.
    for reader in ["cope", "shaw", "grape_a", "deberta", "pope", "transformer_xl"] {
        for list in [["rope", reader], [reader, "rope"]] {
            let list = format!("{{ encodings = {list:?} }}");
            assert_eq!(of(&list), PositionUse::Positions, "{list}");
            assert_eq!(of(&format!("\"none\", {list}")), PositionUse::Positions, "{list}");
        }
        assert_ne!(of(&format!("\"rope\", {reader:?}")), PositionUse::Positions, "two layers, {reader}");
    }
    for other in ["alibi", "dape", "fox", "scale_invariant", "sink_logit"] {
        let list = format!("{{ encodings = [\"rope\", {other:?}] }}");
        assert_eq!(of(&list), PositionUse::Distances, "{list}");
    }
    let deberta = |keys: &str| reading(&format!("kind = \"deberta\"\n{keys}"), LogN::Off).position_use();
    assert_eq!(deberta(""), PositionUse::Distances);
    assert_eq!(deberta("absolute_layers = 1"), PositionUse::Positions);
}
