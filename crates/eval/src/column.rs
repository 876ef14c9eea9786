//! What a column of a result file is.

use std::borrow::Cow;

/// What the values of a column are; a missing value is null whatever they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Words, or JSON.
    Text,
    Whole,
    Number,
    /// True or false.
    Boolean,
}

impl ColumnType {
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Whole => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    pub name: &'static str,
    pub of: ColumnType,
    /// What they mean, and in which unit.
    pub meaning: Cow<'static, str>,
}

impl ColumnInfo {
    pub fn number(name: &'static str, meaning: impl Into<Cow<'static, str>>) -> Self {
        Self { name, of: ColumnType::Number, meaning: meaning.into() }
    }

    pub fn text(name: &'static str, meaning: &'static str) -> Self {
        Self { name, of: ColumnType::Text, meaning: meaning.into() }
    }
}
