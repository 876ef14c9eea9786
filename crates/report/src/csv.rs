//! Rows of results as columns of plain values, and those as CSV (RFC 4180).
//!
//! A run's `results.csv` and a study's have the same columns, all of them whatever the rows measure, so that files can
//! be put together; a study's begin with its axes. They are a row's fields by their names, and what metrics
//! make of them, such as `ppl_se`. Lists, such as the sums of each document, stay in
//! `results.jsonl`.

use longwave_core::{Error, Result, csv};
use longwave_eval::column::ColumnType;
use longwave_eval::row::columns::columns;
use longwave_eval::{Metric, ResultRow};
use serde_json::{Map, Value};

/// A named column. A missing value is null, and so is one that is not finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    /// What its values are, the same in every file.
    pub of: ColumnType,
    /// Its values: numbers, words, true and false, or null.
    pub values: Vec<Value>,
}

impl Column {
    pub fn new(name: &str, of: ColumnType, values: Vec<Value>) -> Self {
        Self { name: name.to_owned(), of, values }
    }
}

/// Columns of plain values, all of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Tidy {
    pub columns: Vec<Column>,
}

impl Tidy {
    /// One line for each row, numbers in full.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a ResultRow>) -> Result<Self> {
        let mut columns: Vec<Column> =
            columns().into_iter().map(|info| Column::new(info.name, info.of, Vec::new())).collect();
        for row in rows {
            let fields = fields(row)?;
            for column in &mut columns {
                column.values.push(value(row, &fields, &column.name));
            }
        }
        Ok(Self { columns })
    }

    pub fn height(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    pub fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name)
    }

    /// The table as comma-separated values, with a line of names; nothing stands for null.
    pub fn csv(&self) -> String {
        let mut text = csv::line(self.columns.iter().map(|column| csv::harmless(&column.name)));
        for row in 0..self.height() {
            text += &csv::line(self.columns.iter().map(|column| csv::cell(&column.values[row])));
        }
        text
    }
}

fn fields(row: &ResultRow) -> Result<Map<String, Value>> {
    let row = ResultRow { positions: None, per_document: None, bigrams: None, ..row.clone() };
    match serde_json::to_value(&row) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(Error::failed(format!("a result of `{}` is not a JSON object", row.extend))),
    }
}

fn value(row: &ResultRow, fields: &Map<String, Value>, name: &str) -> Value {
    let facts = row.facts(None);
    let derived = Metric::all().iter().find_map(|metric| metric.derived(name, &facts));
    derived.unwrap_or_else(|| plain(fields.get(name)))
}

/// A field as one number, word or JSON text.
fn plain(field: Option<&Value>) -> Value {
    match field {
        Some(nested @ (Value::Object(_) | Value::Array(_))) => Value::String(nested.to_string()),
        Some(value) => value.clone(),
        None => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use longwave_eval::protocols::{self, Keys};
    use longwave_eval::text::Material;
    use longwave_eval::{BigramRow, LastSeen, Metric, ReferenceDifference, Scoring, Settings, TaskKeys};
    use serde_json::json;
    use std::collections::BTreeSet;

    fn full() -> ResultRow {
        let row = example::row("rope", "yarn", 256, 20.0)
            .with("exact_match", 0.5)
            .with("exact_match_se", 0.1)
            .with("chance", 0.2);
        let every_key: Vec<_> = protocols::keys().iter().map(|key| (key.name, 16)).collect();
        let bigram =
            BigramRow { last_seen: LastSeen::Never, tokens: 1, nll: 1.0, nll_se: None, accuracy: 0.0 };
        ResultRow {
            chosen_among: Some(json!({ "beta": [16, 32] })),
            repeatable: Some(false),
            key_tokens_file: Some("keys.json".into()),
            unknown_tokens: 3,
            unread_bytes: 40,
            settings: Settings {
                corpus_hash: Some("beef".into()),
                key_tokens: Some("feed".into()),
                bos: Some("<s>".into()),
                task: TaskKeys::of(Map::from_iter([("depth".to_owned(), json!(0.5))])),
                score: Some(Scoring::Every),
                keys: Keys::of(&every_key),
                exact: Some(true),
                ..row.settings.clone()
            },
            bigrams: Some(vec![bigram]),
            positions: example::positions()[0].positions.clone(),
            per_document: longwave_eval::row::example::row("yarn", 256, 3.0).per_document,
            difference: Some(ReferenceDifference {
                against: json!({ "kind": "ntk" }),
                nll: -0.5,
                nll_se: Some(0.01),
            }),
            ..row
        }
    }

    fn at<'a>(table: &'a Tidy, name: &str) -> &'a Value {
        &table.columns.iter().find(|column| column.name == name).unwrap().values[0]
    }

    #[test]
    fn every_plain_field_of_a_row_has_its_column() {
        let mut full = full();
        for metric in Metric::all().iter().filter(|metric| metric.is_of(Material::Watched)) {
            for name in metric.column().into_iter().flat_map(|it| [Some(it.name), it.error]).flatten() {
                full.values.set(name, full.values.get(name).or(Some(0.5)));
            }
        }
        let table = Tidy::of([&full]).unwrap();
        let columns: BTreeSet<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(columns.len(), super::columns().len(), "a name stands twice");
        let row = serde_json::to_value(&full).unwrap();
        let lists = ["bigrams", "positions", "per_document"];
        for (name, value) in row.as_object().unwrap() {
            assert!(!value.is_null(), "the test's row has no `{name}`");
            assert_eq!(columns.contains(name.as_str()), !lists.contains(&name.as_str()), "`{name}`");
        }
        for info in super::columns() {
            let value = at(&table, info.name);
            let fits = match info.of {
                ColumnType::Text => value.is_string(),
                ColumnType::Whole => value.is_u64(),
                ColumnType::Number => value.is_number(),
                ColumnType::Boolean => value.is_boolean(),
            };
            assert!(fits, "`{}` is {value}, and its column says {}", info.name, info.of.name());
            assert!(!info.meaning.is_empty(), "`{}` has no meaning", info.name);
        }
        for (name, value) in [
            ("bucket", json!(16)),
            ("sequences", json!(16)),
            ("task", json!("{\"depth\":0.5}")),
            ("score", json!("every")),
            ("exact", json!(true)),
            ("extend_config", json!("{\"kind\":\"yarn\"}")),
            ("against", json!("{\"kind\":\"ntk\"}")),
            ("difference", json!(-0.5)),
            ("difference_se", json!(0.01)),
        ] {
            assert_eq!(*at(&table, name), value, "`{name}`");
        }
    }

    #[test]
    fn what_was_not_measured_is_empty() {
        let row = example::row("rope", "direct", 128, f64::INFINITY).with("nll", f64::NAN);
        let table = Tidy::of([&row]).unwrap();
        for name in ["nll", "ppl", "ppl_se", "bucket", "difference", "against"] {
            assert!(at(&table, name).is_null(), "`{name}`");
        }
        assert_eq!(Tidy::of([]).unwrap().csv().lines().count(), 1);
    }

    #[test]
    fn csv_form() {
        let expected = "\
run,seed,encoding,extend,extend_config,chosen_among,protocol,corpus,corpus_hash,text_hash,split,key_tokens,key_tokens_file,checkpoint,step,stage,bos,task,score,train_length,length,\
target,max_length,window_stride,windows_per_document,stride,bucket,passage,sequences,exact,tokens,documents,\
skipped_documents,bytes,unknown_tokens,unread_bytes,nll,nll_se,ppl,ppl_se,bpb,accuracy,accuracy_se,exact_match,exact_match_se,exact_match_low,exact_match_high,chance,against,difference,\
difference_se,unseen_angles,unseen_angles_se,first_token,first_token_se,effective_keys,effective_keys_se,entropy,entropy_se,beyond_length,beyond_length_se,stable_rank,stable_rank_se,config_hash,device,repeatable,threads,version,format
rope,0,rope,direct,\"{\"\"kind\"\":\"\"direct\"\",\"\"note\"\":\"\"a, \\\"\"b\\\"\"\"\"}\",,fixed_target,data/sotu,,7e47,test,,,last,600,0,,,,128,128,\
128,1024,1024,,,,,,,4096,8,1,10240,,,2.5,0.01,12.25,0.1225,1.5,0.5,0.01,,,,,,,,,,,,,,,,,,,,,hash of rope,cpu,,2,0.1.0,1
";
        let mut row = example::row("rope", "direct", 128, 12.0).with("nll", 2.5).with("ppl", 12.25);
        row.extend_config = json!({ "kind": "direct", "note": "a, \"b\"" });
        assert_eq!(Tidy::of([&row]).unwrap().csv(), expected);
    }

    #[test]
    fn no_text_is_a_formula() {
        let texts = ["=1+1", "+x", "@sum", "-x", "-1.5", "+2", "a=b"].map(|text| json!(text)).to_vec();
        let table = Tidy { columns: vec![Column::new("=label", ColumnType::Text, texts)] };
        assert_eq!(table.csv(), "'=label\n'=1+1\n'+x\n'@sum\n'-x\n-1.5\n+2\na=b\n");
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let column = |name: &str, values: [Value; 2]| Column::new(name, ColumnType::Text, values.into());
        let table = Tidy {
            columns: vec![
                column("label", [json!("a,b"), json!("say \"x\"")]),
                column("length", [json!(128), Value::Null]),
                column("nll", [json!(0.1), json!(2.0)]),
                column("exact", [Value::Null, json!(true)]),
            ],
        };
        assert_eq!(table.csv(), "label,length,nll,exact\n\"a,b\",128,0.1,\n\"say \"\"x\"\"\",,2.0,true\n");
    }
}
