use super::*;

fn read(text: &str) -> Result<ResolvedEvaluate> {
    let table = text.parse().unwrap();
    longwave_core::config::read::<EvaluateConfig>(&table, "evaluate[0]")?.validate("evaluate[0]", 128)
}

fn message(text: &str) -> String {
    let error = read(text).unwrap_err();
    assert!(error.hint_text().is_some(), "{error}");
    error.message().to_owned()
}

#[test]
fn defaults_of_each_protocol() {
    let fixed = read("lengths = [128, 1024, 256]").unwrap();
    assert_eq!(
        (fixed.keys.get("target"), fixed.keys.get("max_length"), fixed.keys.get("window_stride")),
        (Some(128), Some(1024), Some(1024))
    );
    assert_eq!((fixed.protocol, fixed.split), (Protocol::FixedTarget, Split::Test));
    assert_eq!(fixed.extend, [Value::String("direct".into())]);
    let sliding = read("lengths = [128, 512]\nprotocol = \"sliding\"").unwrap();
    assert_eq!((sliding.keys.get("stride"), sliding.keys.get("max_length")), (Some(64), Some(512)));
    let short = read("lengths = [1, 512]\nprotocol = \"sliding\"").unwrap();
    assert_eq!(short.keys.get("stride"), Some(1));
    let places = read("lengths = [1024]\nprotocol = \"by_position\"").unwrap();
    assert_eq!((places.keys.get("bucket"), places.keys.get("stride")), (Some(16), None));
    let repeated = |lengths: &str| {
        let keys = read(&format!("lengths = {lengths}\nprotocol = \"repeated_text\"")).unwrap().keys;
        (keys.get("passage"), keys.get("target"))
    };
    // One token further back than the window baseline reads.
    assert_eq!(repeated("[128, 512]"), (Some(129), Some(128)));
    assert_eq!(repeated("[512, 1024]"), (Some(129), Some(128)));
    assert_eq!(repeated("[64, 1024]"), (Some(129), Some(64)));
}

#[test]
fn lengths_are_tokens_or_multiples_of_the_training_length() {
    let block =
        read("lengths = [\"L\", \"1.5L\", 512, \"8L\"]\ntarget = \"L/2\"\nwindow_stride = \"4L\"").unwrap();
    assert_eq!(block.lengths, [128, 192, 512, 1024]);
    assert_eq!(
        (block.keys.get("target"), block.keys.get("max_length"), block.keys.get("window_stride")),
        (Some(64), Some(1024), Some(512))
    );
    assert_eq!(read("").unwrap().lengths, [128, 256, 512, 1024]);
    let longer = read("lengths = [\"L\"]\nmax_length = \"8L\"").unwrap();
    assert_eq!((longer.lengths, longer.keys.get("max_length")), (vec![128], Some(1024)));
    assert_eq!(read("protocol = \"sliding\"\nstride = \"L/4\"").unwrap().keys.get("stride"), Some(32));
    assert_eq!(read("protocol = \"by_position\"\nbucket = \"L/16\"").unwrap().keys.get("bucket"), Some(8));
    assert_eq!(
        read("protocol = \"repeated_text\"\npassage = \"L/2\"").unwrap().keys.get("passage"),
        Some(64)
    );
}

#[test]
fn a_wrong_length_is_told_with_its_key_and_what_is_meant() {
    let error = read("lengths = [\"L\", \"2l\"]").unwrap_err();
    assert!(
        error.message().starts_with("`evaluate[0].lengths[1] = \"2l\"` is not allowed: it must be"),
        "{error}"
    );
    assert_eq!(error.hint_text(), Some("did you mean `\"2L\"`?"));
    let small = message("lengths = [\"L\"]\ntarget = \"L/200\"");
    assert_eq!(
        small,
        "`evaluate[0].target = \"L/200\"` is not allowed: at L = 128 it is less than one token"
    );
    assert!(message("lengths = [\"L\", 128]").contains("128 is listed twice"));
}

#[test]
fn a_block_in_tokens_is_written_as_before() {
    let table = "lengths = [\"L\", 256]\nmax_length = \"8L\"".parse().unwrap();
    let block: EvaluateConfig = longwave_core::config::read(&table, "evaluate[0]").unwrap();
    let counts = block.in_tokens("evaluate[0]", 128).unwrap();
    let written = Table::try_from(&counts).unwrap();
    assert_eq!(written["lengths"].to_string(), "[128, 256]");
    assert_eq!(written["max_length"].to_string(), "1024");
    assert_eq!(counts.in_tokens("evaluate[0]", 64).unwrap(), counts);
}

#[test]
fn refuses_lengths_that_cannot_be_read() {
    assert!(message("lengths = []").starts_with("`evaluate[0].lengths = []` is not allowed"));
    assert!(
        message("lengths = [0, 128]")
            .starts_with("`evaluate[0].lengths[0] = 0` is not allowed: it must be a whole")
    );
    assert!(message("lengths = [128, 128]").contains("128 is listed twice"));
    assert!(message("lengths = [64, 128]").contains("at least `target = 128`"));
    assert!(message("lengths = [128]\nextend = []").contains("evaluate[0].extend"));
}

#[test]
fn refuses_a_layout_that_scores_twice_or_never() {
    assert!(message("lengths = [256]\nmax_length = 128").contains("`evaluate[0].max_length = 128`"));
    assert!(message("lengths = [256]\ntarget = 512").contains("at most `max_length = 256`"));
    assert!(message("lengths = [256]\nwindow_stride = 64").contains("at least `target = 128`"));
    assert!(message("lengths = [256]\ntarget = 0").contains("at least 1"));
    assert!(message("lengths = [256]\nwindows_per_document = 0").contains("it must be 1 at least"));
    let sliding = "protocol = \"sliding\"\nlengths = [32, 64]\nstride = ";
    assert!(message(&format!("{sliding}33")).contains("at most the shortest of `lengths`, 32"));
    assert!(message(&format!("{sliding}0")).contains("at least 1"));
    let repeated = "protocol = \"repeated_text\"\nlengths = [256, 512]\npassage = ";
    assert!(
        message(&format!("{repeated}386")).contains("no length reaches back to a copy of a passage of 386")
    );
    assert!(message(&format!("{repeated}16\ntarget = 17")).contains("at most 16, the passage"));
    assert!(message(&format!("{repeated}300\ntarget = 257")).contains("256, the shortest of `lengths`"));
    assert!(message(&format!("{repeated}0")).contains("at least 1"));
    let alone = message("protocol = \"repeated_text\"\nlengths = [\"L\"]");
    assert!(
        alone.starts_with("`evaluate[0].lengths = 128`") && alone.ends_with("that takes 256 tokens"),
        "{alone}"
    );
}

#[test]
fn refuses_keys_without_meaning() {
    assert_eq!(
        message("lengths = [256]\nstride = 64"),
        "`evaluate[0].stride = 64` is not allowed: it has no meaning for `protocol = \"fixed_target\"`"
    );
    assert!(message("lengths = [256]\nprotocol = \"sliding\"\ntarget = 8").contains("no meaning"));
    assert!(message("lengths = [256]\npassage = 8").contains("no meaning"));
    assert!(message("lengths = [256]\nsequences = 8").contains("no meaning"));
    let task = "lengths = [256]\nprotocol = \"task\"\n";
    assert!(message(&format!("{task}corpus = \"x\"")).contains("`evaluate[0].corpus"));
    assert!(message(&format!("{task}split = \"valid\"")).contains("`evaluate[0].split"));
    assert!(message(&format!("{task}windows_per_document = 2")).contains("no meaning"));
    assert!(message("lengths = [256]\nlenght = 3").contains("lenght"));
    assert!(message("lengths = [256]\nprotocol = \"slidding\"").contains("slidding"));
}

#[test]
fn a_split_without_long_documents_says_so() {
    let block = read("lengths = [128, 1024]").unwrap();
    let error = block.plan(128, &[300, 900]).unwrap_err();
    assert_eq!(
        error.message(),
        "no document of the test split is as long as 1025 tokens (`max_length = 1024` and one to \
         predict): the longest has 900"
    );
    assert!(error.hint_text().unwrap().starts_with("read lengths up to 899, with `--lengths 899`"));
    assert_eq!(block.plan(128, &[300, 1025]).unwrap().skipped_documents, 1);
    let repeated = read("lengths = [256]\nprotocol = \"repeated_text\"").unwrap();
    assert!(repeated.plan(256, &[128]).unwrap_err().message().contains("a passage of 129 tokens"));
}

#[test]
fn settings_record_what_has_a_meaning() {
    let block = read("lengths = [128, 256]\nprotocol = \"non_overlapping\"").unwrap();
    let settings = block.settings(256, "direct");
    assert_eq!(
        (settings.keys.get("stride"), settings.exact, settings.keys.get("target")),
        (Some(256), None, None)
    );
    assert_eq!(block.settings(256, WINDOW_BASELINE).exact, Some(false));
}

#[test]
fn the_schema_lists_every_key() {
    let schema = serde_json::to_value(schemars::schema_for!(EvaluateConfig)).unwrap();
    assert_eq!(schema["properties"].as_object().unwrap().len(), 19);
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn key_tokens_and_their_file_come_together() {
    let keys = "tokens = \"key\"\nkey_tokens = \"keys.json\"";
    let block = read(&format!("lengths = [128]\n{keys}")).unwrap();
    assert_eq!((block.key_tokens.as_deref(), block.tokens()), (Some("keys.json"), ScoredTokens::Key));
    // What is chosen is chosen by all tokens.
    assert_eq!(block.to_choose_on(Split::Valid).tokens(), ScoredTokens::All);
    for (keys, start) in [
        ("tokens = \"key\"", "`evaluate[0].tokens = \"key\"`"),
        ("key_tokens = \"keys.json\"", "`evaluate[0].key_tokens = \"keys.json\"`"),
        (&format!("{keys}\nprotocol = \"repeated_text\""), "`evaluate[0].tokens = \"key\"`"),
    ] {
        let error = read(&format!("lengths = [256]\n{keys}")).unwrap_err();
        assert!(error.message().starts_with(start) && error.hint_text().is_some(), "{error}");
    }
}
