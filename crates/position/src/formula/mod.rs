//! Formulas that a config gives as text: a bias by distance, a schedule of frequencies.
//!
//! - [`parse`](mod@parse): text to a tree of operations, with the character where it is wrong.
//! - [`evaluate`](mod@evaluate): the value of a tree, as one f64 or over many distances. What depends on no learned
//!   parameter is computed on the host in f64; the rest are tensor operations, so that gradients follow from them.
//! - [`parameter`]: learned parameters, where they start and how training treats them.

pub mod evaluate;
pub mod parameter;
pub mod parse;

use longwave_core::error::nearest;
use longwave_core::{Error, Result};

pub use evaluate::Value;

#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    Number(f64),
    /// A variable or a parameter.
    Name(String),
    /// A function of one argument.
    Call(Function, Box<Formula>),
    Join(Operation, Box<Formula>, Box<Formula>),
}

/// A function of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named after itself")]
pub enum Function {
    Neg,
    Exp,
    Log,
    Log2,
    Log1p,
    Sqrt,
    Abs,
    Sin,
    Cos,
    Tanh,
    Sigmoid,
    Softplus,
    Floor,
    Ceil,
    Round,
}

impl Function {
    /// Those that a formula calls, by name; `ln` is `log`.
    pub const NAMED: [(&str, Self); 15] = [
        ("exp", Self::Exp),
        ("log", Self::Log),
        ("ln", Self::Log),
        ("log2", Self::Log2),
        ("log1p", Self::Log1p),
        ("sqrt", Self::Sqrt),
        ("abs", Self::Abs),
        ("sin", Self::Sin),
        ("cos", Self::Cos),
        ("tanh", Self::Tanh),
        ("sigmoid", Self::Sigmoid),
        ("softplus", Self::Softplus),
        ("floor", Self::Floor),
        ("ceil", Self::Ceil),
        ("round", Self::Round),
    ];

    /// Whether it is flat between its jumps, so that nothing inside could learn.
    fn is_flat(self) -> bool {
        matches!(self, Self::Floor | Self::Ceil | Self::Round)
    }
}

/// An operation of two arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named after itself")]
pub enum Operation {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Min,
    Max,
}

/// Functions of two or three arguments, by name.
const OF_SEVERAL: [&str; 4] = ["min", "max", "pow", "clamp"];

const CONSTANTS: [(&str, f64); 2] = [("pi", std::f64::consts::PI), ("e", std::f64::consts::E)];

/// Whether a name is taken by a function or a constant.
pub fn is_reserved(name: &str) -> bool {
    Function::NAMED.iter().any(|(known, _)| *known == name)
        || OF_SEVERAL.contains(&name)
        || CONSTANTS.iter().any(|(known, _)| *known == name)
}

impl Formula {
    /// Reads the text at a key of a config; `known` are the names that may stand in it.
    pub fn read(key: &str, text: &str, known: &[&str]) -> Result<Self> {
        let wrong = |what: String| Error::value(key, format!("{text:?}"), what);
        let formula = parse::parse(text).map_err(|error| {
            wrong(error.to_string()).hint("a formula is written like `-p * log1p(a * n)`; `^` is the power")
        })?;
        let names = formula.names();
        match names.iter().find(|name| !known.contains(&name.as_str())) {
            None => Ok(formula),
            Some(name) => {
                let near = nearest(name, known.iter().copied());
                let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
                let listed: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                Err(wrong(format!("`{name}` is not known here"))
                    .hint(format!("{near}names that may stand here are {}", listed.join(", "))))
            }
        }
    }

    /// Every name in it, each once.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.visit(&mut |part| {
            if let Self::Name(name) = part
                && !names.contains(name)
            {
                names.push(name.clone());
            }
        });
        names
    }

    /// Whether a name stands in it.
    pub fn has(&self, name: &str) -> bool {
        let mut found = false;
        self.visit(&mut |part| found |= matches!(part, Self::Name(known) if known == name));
        found
    }

    pub fn operations(&self) -> usize {
        let mut count = 0;
        self.visit(&mut |part| count += usize::from(matches!(part, Self::Call(..) | Self::Join(..))));
        count
    }

    /// A function with jumps whose argument has one of `names`, which then could not learn.
    pub fn flat_over(&self, names: &[&str]) -> Option<&'static str> {
        let mut found = None;
        self.visit(&mut |part| {
            if let Self::Call(function, inner) = part
                && function.is_flat()
                && names.iter().any(|name| inner.has(name))
            {
                found = Function::NAMED.iter().find(|(_, known)| known == function).map(|(name, _)| *name);
            }
        });
        found
    }

    /// What stands before `name` where the formula is a multiple of it, without the name.
    pub fn multiple_of(&self, name: &str) -> Option<Self> {
        let join = |operation, a: Self, b: Self| Self::Join(operation, Box::new(a), Box::new(b));
        match self {
            Self::Name(known) if known == name => Some(Self::Number(1.0)),
            Self::Call(Function::Neg, inner) => {
                Some(Self::Call(Function::Neg, Box::new(inner.multiple_of(name)?)))
            }
            Self::Join(operation @ (Operation::Add | Operation::Sub), a, b) => {
                Some(join(*operation, a.multiple_of(name)?, b.multiple_of(name)?))
            }
            Self::Join(Operation::Mul, a, b) if !a.has(name) => {
                Some(join(Operation::Mul, (**a).clone(), b.multiple_of(name)?))
            }
            Self::Join(Operation::Mul, a, b) if !b.has(name) => {
                Some(join(Operation::Mul, a.multiple_of(name)?, (**b).clone()))
            }
            Self::Join(Operation::Div, a, b) if !b.has(name) => {
                Some(join(Operation::Div, a.multiple_of(name)?, (**b).clone()))
            }
            _ => None,
        }
    }

    fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Self)) {
        see(self);
        match self {
            Self::Number(_) | Self::Name(_) => {}
            Self::Call(_, inner) => inner.visit(see),
            Self::Join(_, a, b) => {
                a.visit(see);
                b.visit(see);
            }
        }
    }
}

#[cfg(test)]
mod tests;
