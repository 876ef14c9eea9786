//! Text to formulas.
//!
//! ```text
//! sum     = product (("+" | "-") product)*
//! product = signed (("*" | "/") signed)*
//! signed  = ("-" | "+") signed | power
//! power   = atom ("^" signed)?
//! atom    = number | name | name "(" sum ("," sum)* ")" | "(" sum ")"
//! ```
//!
//! `^` binds more strongly than a sign before it and groups to the right: `-2^2` is -4, `2^3^2` is 512.

use super::{CONSTANTS, Formula, Function, OF_SEVERAL, Operation};
use std::fmt;

/// The longest text, in characters.
const LONGEST: usize = 1000;
/// The deepest nesting of parentheses, signs and powers.
const DEEPEST: usize = 64;

/// Where and why a text is no formula.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The character, counted from 1.
    pub at: usize,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "character {}: {}", self.at, self.what)
    }
}

type Parsed = Result<Formula, ParseError>;

pub fn parse(text: &str) -> Parsed {
    let signs: Vec<char> = text.chars().collect();
    let mut parser = Parser { signs, at: 0, depth: 0 };
    if parser.signs.len() > LONGEST {
        return Err(ParseError {
            at: LONGEST + 1,
            what: format!("a formula has at most {LONGEST} characters"),
        });
    }
    let formula = parser.sum()?;
    match parser.next() {
        None => Ok(formula),
        Some(')') => Err(parser.wrong("`)` without its `(`")),
        Some(sign) => Err(parser.wrong(format!("an operation is missing before `{sign}`"))),
    }
}

struct Parser {
    signs: Vec<char>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn wrong(&self, what: impl Into<String>) -> ParseError {
        ParseError { at: self.at + 1, what: what.into() }
    }

    /// The next character that is no space.
    fn next(&mut self) -> Option<char> {
        while self.signs.get(self.at).is_some_and(|sign| sign.is_whitespace()) {
            self.at += 1;
        }
        self.signs.get(self.at).copied()
    }

    /// Takes the next character where it is one of `signs`.
    fn take(&mut self, signs: &[char]) -> Option<char> {
        let sign = self.next().filter(|sign| signs.contains(sign))?;
        self.at += 1;
        Some(sign)
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(format!("it is nested more than {DEEPEST} deep")));
        }
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let operation = if sign == '+' { Operation::Add } else { Operation::Sub };
            left = Formula::Join(operation, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.signed()?;
        while let Some(sign) = self.take(&['*', '/']) {
            let operation = if sign == '*' { Operation::Mul } else { Operation::Div };
            left = Formula::Join(operation, Box::new(left), Box::new(self.signed()?));
        }
        Ok(left)
    }

    fn signed(&mut self) -> Parsed {
        match self.take(&['-', '+']) {
            Some('-') => {
                let inner = self.deeper(Self::signed)?;
                Ok(Formula::Call(Function::NEG, Box::new(inner)))
            }
            Some(_) => self.deeper(Self::signed),
            None => self.power(),
        }
    }

    fn power(&mut self) -> Parsed {
        let base = self.atom()?;
        if self.take(&['^']).is_none() {
            return Ok(base);
        }
        let exponent = self.deeper(Self::signed)?;
        Ok(Formula::Join(Operation::Pow, Box::new(base), Box::new(exponent)))
    }

    fn atom(&mut self) -> Parsed {
        match self.next() {
            Some('(') => {
                self.at += 1;
                let inner = self.deeper(Self::sum)?;
                self.close()?;
                Ok(inner)
            }
            Some(sign) if sign.is_ascii_digit() || sign == '.' => self.number(),
            Some(sign) if sign.is_ascii_alphabetic() || sign == '_' => self.named(),
            Some(sign) => Err(self.wrong(format!("a number, a name or `(` must stand here, not `{sign}`"))),
            None => Err(self.wrong("it ends where a number, a name or `(` must stand")),
        }
    }

    fn close(&mut self) -> Result<(), ParseError> {
        match self.take(&[')']) {
            Some(_) => Ok(()),
            None => Err(self.wrong("`)` is missing")),
        }
    }

    fn number(&mut self) -> Parsed {
        let start = self.at;
        let digits = |parser: &mut Self| {
            while parser.signs.get(parser.at).is_some_and(|sign| sign.is_ascii_digit() || *sign == '.') {
                parser.at += 1;
            }
        };
        digits(self);
        // `2e3` and `2e-3`, but not the constant in `2*e`.
        if matches!(self.signs.get(self.at), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.signs.get(self.at + 1), Some('+' | '-')));
            if self.signs.get(self.at + 1 + sign).is_some_and(char::is_ascii_digit) {
                self.at += 1 + sign;
                digits(self);
            }
        }
        let text: String = self.signs[start..self.at].iter().collect();
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Formula::Number(number)),
            _ => Err(ParseError { at: start + 1, what: format!("`{text}` is no number") }),
        }
    }

    fn named(&mut self) -> Parsed {
        let start = self.at;
        while self.signs.get(self.at).is_some_and(|sign| sign.is_ascii_alphanumeric() || *sign == '_') {
            self.at += 1;
        }
        let name: String = self.signs[start..self.at].iter().collect();
        if self.take(&['(']).is_some() {
            return self.call(&name, start);
        }
        Ok(match CONSTANTS.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => Formula::Number(*value),
            None => Formula::Name(name),
        })
    }

    /// The arguments of a function up to its `)`.
    fn call(&mut self, name: &str, start: usize) -> Parsed {
        let function = Function::named(name);
        if function.is_none() && !OF_SEVERAL.contains(&name) {
            let known = Function::NAMED.iter().map(|known| known.name).chain(OF_SEVERAL);
            let known: Vec<String> = known.map(|known| format!("`{known}`")).collect();
            let what = format!("`{name}` is no function; there are {}", known.join(", "));
            return Err(ParseError { at: start + 1, what });
        }
        let mut arguments = vec![self.deeper(Self::sum)?];
        while self.take(&[',']).is_some() {
            arguments.push(self.deeper(Self::sum)?);
        }
        self.close()?;
        let given = arguments.len();
        let mut arguments = arguments.into_iter().map(Box::new);
        let mut next = || arguments.next();
        let join = |operation, a, b| Formula::Join(operation, a, b);
        let formula = match (function, name, given, next(), next(), next()) {
            (Some(function), _, 1, Some(a), ..) => Some(Formula::Call(function, a)),
            (None, "min", 2, Some(a), Some(b), _) => Some(join(Operation::Min, a, b)),
            (None, "max", 2, Some(a), Some(b), _) => Some(join(Operation::Max, a, b)),
            (None, "pow", 2, Some(a), Some(b), _) => Some(join(Operation::Pow, a, b)),
            (None, "clamp", 3, Some(a), Some(low), Some(high)) => {
                Some(join(Operation::Min, Box::new(join(Operation::Max, a, low)), high))
            }
            _ => None,
        };
        let takes = match name {
            "clamp" => 3,
            "min" | "max" | "pow" => 2,
            _ => 1,
        };
        formula.ok_or_else(|| {
            let arguments = if takes == 1 { "argument" } else { "arguments" };
            ParseError { at: start + 1, what: format!("`{name}` takes {takes} {arguments}, not {given}") }
        })
    }
}
