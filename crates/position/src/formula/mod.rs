//! Formulas that a config gives as text: a bias by distance, a schedule of frequencies.
//!
//! - [`parse`](mod@parse): text to a tree of operations, with the character where it is wrong.
//! - [`evaluate`](mod@evaluate): the value of a tree, as one f64 or over many distances. What depends on no learned
//!   parameter is computed on the host in f64; the rest are tensor operations, so that gradients follow from them.
//! - [`parameter`]: learned parameters, where they start and how training treats them.

pub mod evaluate;
pub mod parameter;
pub mod parse;

use burn::tensor::Tensor;
use burn::tensor::activation::{log_sigmoid, sigmoid};
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
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// As a formula calls it; empty for the sign before a number.
    name: &'static str,
    of_number: fn(f64) -> f64,
    of_tensor: fn(Tensor<2>) -> Tensor<2>,
    /// Whether it is flat between its jumps, so that nothing inside could learn.
    is_flat: bool,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Function {
    pub(crate) const NEG: Self = Self::new("", |x| -x, Tensor::neg);

    /// Those that a formula calls; `ln` is `log`.
    pub(crate) const NAMED: [Self; 15] = [
        Self::new("exp", f64::exp, Tensor::exp),
        Self::new("log", f64::ln, Tensor::log),
        Self::new("ln", f64::ln, Tensor::log),
        Self::new("log2", f64::log2, |x| x.log().div_scalar(std::f64::consts::LN_2)),
        Self::new("log1p", f64::ln_1p, Tensor::log1p),
        Self::new("sqrt", f64::sqrt, |x| evaluate::flat_at_zero(x, Tensor::sqrt)),
        Self::new("abs", f64::abs, Tensor::abs),
        Self::new("sin", f64::sin, Tensor::sin),
        Self::new("cos", f64::cos, Tensor::cos),
        Self::new("tanh", f64::tanh, Tensor::tanh),
        Self::new("sigmoid", |x| 1.0 / (1.0 + (-x).exp()), sigmoid),
        // Nothing overflows: exp of a number below 0, and for tensors a gradient at 0 of 1/2.
        Self::new("softplus", |x| x.max(0.0) + (-x.abs()).exp().ln_1p(), |x| log_sigmoid(x.neg()).neg()),
        Self { is_flat: true, ..Self::new("floor", f64::floor, Tensor::floor) },
        Self { is_flat: true, ..Self::new("ceil", f64::ceil, Tensor::ceil) },
        Self { is_flat: true, ..Self::new("round", f64::round, Tensor::round) },
    ];

    const fn new(
        name: &'static str,
        of_number: fn(f64) -> f64,
        of_tensor: fn(Tensor<2>) -> Tensor<2>,
    ) -> Self {
        Self { name, of_number, of_tensor, is_flat: false }
    }

    fn named(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|function| function.name == name)
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
    Function::named(name).is_some()
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
                && function.is_flat
                && names.iter().any(|name| inner.has(name))
            {
                found = Some(function.name);
            }
        });
        found
    }

    /// What stands before `name` where the formula is a multiple of it, without the name.
    pub fn multiple_of(&self, name: &str) -> Option<Self> {
        let join = |operation, a: Self, b: Self| Self::Join(operation, Box::new(a), Box::new(b));
        match self {
            Self::Name(known) if known == name => Some(Self::Number(1.0)),
            Self::Call(function, inner) if *function == Function::NEG => {
                Some(Self::Call(Function::NEG, Box::new(inner.multiple_of(name)?)))
            }
            Self::Join(operation @ (Operation::Add | Operation::Sub), a, b) => {
                Some(join(*operation, a.multiple_of(name)?, b.multiple_of(name)?))
            }
            Self::Join(Operation::Mul, a, b) if !a.has(name) => {
                Some(join(Operation::Mul, (**a).clone(), b.multiple_of(name)?))
            }
            Self::Join(operation @ (Operation::Mul | Operation::Div), a, b) if !b.has(name) => {
                Some(join(*operation, a.multiple_of(name)?, (**b).clone()))
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
