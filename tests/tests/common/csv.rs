//! Files of comma-separated values.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part")]

/// The lines of comma-separated values, by the names of the first one.
pub struct Csv {
    names: Vec<String>,
    pub lines: Vec<Vec<String>>,
}

impl Csv {
    pub fn read(text: &str) -> Self {
        let (mut lines, mut cells, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
        let mut signs = text.chars().peekable();
        while let Some(sign) = signs.next() {
            match sign {
                '"' if quoted && signs.peek() == Some(&'"') => cell.extend(signs.next()),
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(std::mem::take(&mut cell)),
                '\n' if !quoted => {
                    cells.push(std::mem::take(&mut cell));
                    lines.push(std::mem::take(&mut cells));
                }
                other => cell.push(other),
            }
        }
        Self { names: lines.remove(0), lines }
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The place of a column, where there is one of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// The place of a column.
    pub fn place(&self, name: &str) -> usize {
        self.find(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.names))
    }
}

#[test]
fn cells_may_be_quoted() {
    let csv = Csv::read("x,y\na,\"b, \"\"c\"\"\"\n,d\n");
    assert_eq!(csv.names, ["x", "y"]);
    assert_eq!(csv.lines, [["a", "b, \"c\""], ["", "d"]]);
}
