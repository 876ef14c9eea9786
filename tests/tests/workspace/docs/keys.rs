//! The keys of a schema as a Markdown list.

use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Where a type that has a page of its own is described: its name in the schema, what it is called, and the link.
const ELSEWHERE: [(&str, &str, &str); 6] = [
    ("EncodingConfig", "an encoding", "encodings.md"),
    ("PositionConfig", "an encoding, a list of encodings or a mixed stack", "#position"),
    ("ExtensionConfig", "an extension", "extensions.md"),
    ("ExtendEntry", "an extension", "extensions.md"),
    ("Against", "`\"window_baseline\"` or an extension", "extensions.md"),
    ("Protocol", "a protocol", "protocols.md"),
];

/// More choices than this stand in the list below their key alone.
const MANY: usize = 6;

/// A schema with the definitions that it refers to.
pub struct Schema {
    root: Value,
    without_owners: bool,
}

/// The protocols that a key belongs to, which its description names before a colon.
pub fn owners(key: &Value) -> Vec<&str> {
    let names = description(key).split_once("`: ").map_or("", |(names, _)| names);
    names.trim_start_matches('`').split("`, `").filter(|name| !name.is_empty()).collect()
}

impl Schema {
    pub fn new(root: Value) -> Self {
        Self { root, without_owners: false }
    }

    /// The same, whose keys leave out the protocols that they belong to.
    pub fn without_owners(&self) -> Self {
        Self { root: self.root.clone(), without_owners: true }
    }

    /// A type by its name.
    pub fn definition(&self, name: &str) -> &Value {
        &self.root["$defs"][name]
    }

    /// The keys at the top.
    pub fn root(&self) -> &Value {
        &self.root
    }

    /// One table of a type that is chosen by `kind`.
    pub fn variant(&self, name: &str, kind: &str) -> &Value {
        let forms = alternatives(self.definition(name));
        let mut tables = forms.iter().flat_map(|form| alternatives(form)).chain(forms.iter().copied());
        tables.find(|table| kinds(table).contains(&kind)).unwrap()
    }

    /// One item for each key but those that `skip` names.
    pub fn keys(&self, table: &Value, skip: &[&str]) -> String {
        self.list(table, skip, 0)
    }

    fn list(&self, table: &Value, skip: &[&str], depth: usize) -> String {
        let mut text = String::new();
        for (key, schema) in table["properties"].as_object().into_iter().flatten() {
            if !skip.contains(&key.as_str()) {
                text += &self.item(table, key, schema, depth);
            }
        }
        text
    }

    fn item(&self, table: &Value, key: &str, schema: &Value, depth: usize) -> String {
        let inner = self.resolve(schema);
        let required =
            table["required"].as_array().is_some_and(|keys| keys.iter().any(|required| required == key));
        // Where the words name a default, it is not named twice.
        let in_words = description(schema).contains("Default:");
        let default = schema.get("default").filter(|default| !default.is_null() && !in_words);
        let mut notes = vec![self.kind_of(schema)];
        match default {
            Some(default) => notes.push(format!("default `{}`", toml_text(default))),
            None if required && !in_words => notes.push("required".to_owned()),
            None => {}
        }
        let indent = "  ".repeat(depth);
        let mut text =
            format!("{indent}- `{key}` ({}): {}\n", notes.join(", "), sentence(&self.words(schema)));
        if !is_elsewhere(schema) {
            text += &self.inside(inner, depth + 1);
        }
        text
    }

    /// The description, without the protocols that own the key where the page is about them.
    fn words(&self, schema: &Value) -> String {
        let words = description(schema);
        match words.split_once("`: ") {
            Some((_, words)) if self.without_owners => words.to_owned(),
            _ => words.to_owned(),
        }
    }

    /// The values of a choice, or the keys of a table.
    fn inside(&self, schema: &Value, depth: usize) -> String {
        let indent = "  ".repeat(depth);
        let mut text = String::new();
        for choice in alternatives(schema).into_iter().map(|choice| self.resolve(choice)) {
            if let Some(kind) = kinds(choice).first() {
                let _ = writeln!(text, "{indent}- `kind = \"{kind}\"`: {}", sentence(description(choice)));
                text += &self.list(choice, &["kind"], depth + 1);
            } else if let Some(value) = choice.get("const").filter(|_| !description(choice).is_empty()) {
                let _ = writeln!(text, "{indent}- `{}`: {}", toml_text(value), sentence(description(choice)));
            }
        }
        text + &self.list(schema, &[], depth)
    }

    /// The type in words.
    fn kind_of(&self, schema: &Value) -> String {
        if let Some((_, words, link)) = elsewhere(schema) {
            return format!("[{words}]({link})");
        }
        if let [only] = alternatives(schema)[..] {
            return self.kind_of(only);
        }
        let named = schema["$ref"].as_str().is_some_and(|name| name.ends_with("/Tokens"));
        if named
            || alternatives(schema).iter().any(|choice| choice["pattern"].as_str().is_some_and(is_length))
        {
            return "length".to_owned();
        }
        let inner = self.resolve(schema);
        let choices = alternatives(inner);
        if choices.len() > MANY {
            return "one of these".to_owned();
        }
        if !choices.is_empty() {
            let words: Vec<String> = choices.iter().map(|choice| self.kind_of(choice)).collect();
            let tables = words.iter().all(|word| word == "table");
            return if tables { "table".to_owned() } else { joined(&words) };
        }
        if let Some(value) = inner.get("const") {
            return format!("`{}`", toml_text(value));
        }
        if let Some(values) = inner["enum"].as_array() {
            let words: Vec<String> = values.iter().map(|value| format!("`{}`", toml_text(value))).collect();
            return joined(&words);
        }
        let types = match &inner["type"] {
            Value::Array(types) => {
                types.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or("")
            }
            name => name.as_str().unwrap_or(""),
        };
        match types {
            "boolean" => "`true` or `false`".to_owned(),
            "array" => format!("list: {}", self.kind_of(&inner["items"])),
            "object" => "table".to_owned(),
            other => other.to_owned(),
        }
    }

    /// What a reference, or the one type beside `null`, stands for.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            return self.resolve(self.definition(name));
        }
        let choices = alternatives(schema);
        if choices.len() == 1 { self.resolve(choices[0]) } else { schema }
    }
}

/// What a schema chooses from, `null` aside, the names that stand for tables, and other names of a choice.
fn alternatives(schema: &Value) -> Vec<&Value> {
    let choices = ["anyOf", "oneOf"].iter().find_map(|key| schema[key].as_array());
    let choices = || choices.into_iter().flatten().filter(|choice| choice["type"] != "null");
    let has_more = choices().any(|choice| choice.get("$ref").or(choice.get("const")).is_some());
    let is_names =
        |choice: &&Value| choice.as_object().is_some_and(|it| it.len() == 1 && it.contains_key("enum"));
    choices().filter(|choice| !(has_more && is_names(choice))).collect()
}

/// Whether a type, or one that it chooses from, has a page of its own.
fn is_elsewhere(schema: &Value) -> bool {
    let parts = || alternatives(schema).into_iter().chain([schema, &schema["items"]]);
    parts().any(|part| elsewhere(part).is_some())
}

fn elsewhere(schema: &Value) -> Option<(&'static str, &'static str, &'static str)> {
    let name = schema["$ref"].as_str()?.rsplit('/').next()?;
    ELSEWHERE.into_iter().find(|(known, ..)| *known == name)
}

/// The kinds that a table is chosen by.
fn kinds(table: &Value) -> Vec<&str> {
    let kind = &table["properties"]["kind"];
    let several = kind["enum"].as_array().into_iter().flatten();
    kind["const"].as_str().into_iter().chain(several.filter_map(Value::as_str)).collect()
}

fn is_length(pattern: &str) -> bool {
    pattern.contains('L')
}

fn joined(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

fn description(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or("")
}

/// A value as a config has it.
fn toml_text(value: &Value) -> String {
    match value {
        Value::Object(table) => table_text(table),
        Value::Array(items) => format!("[{}]", items.iter().map(toml_text).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

fn table_text(table: &Map<String, Value>) -> String {
    let keys: Vec<String> =
        table.iter().map(|(key, value)| format!("{key} = {}", toml_text(value))).collect();
    format!("{{ {} }}", keys.join(", "))
}

/// One line that begins with a capital letter and ends with a full stop, safe in Markdown.
pub fn sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut characters = line.chars();
    let mut sentence: String = match characters.next() {
        // A code or a symbol stays as it is.
        Some(first) if first.is_ascii_lowercase() && !line.contains(" = ") && !is_symbol(&line) => {
            first.to_uppercase().chain(characters).collect()
        }
        Some(_) => line,
        None => return String::new(),
    };
    if !sentence.ends_with('.') {
        sentence.push('.');
    }
    escaped(&sentence)
}

/// Whether a line begins with a single letter, as `s: positions are divided by it`, or with a name such as `ntk_by_parts`.
fn is_symbol(line: &str) -> bool {
    let word = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
    word.len() == 1 && word != "a" || word.contains('_')
}

/// `<`, `*` and `|` outside of code are no markup.
fn escaped(text: &str) -> String {
    let escape = |(index, part): (usize, &str)| {
        if index % 2 == 1 {
            part.to_owned()
        } else {
            part.replace('<', "\\<").replace('*', "\\*").replace('|', "\\|")
        }
    };
    text.split('`').enumerate().map(escape).collect::<Vec<_>>().join("`")
}
