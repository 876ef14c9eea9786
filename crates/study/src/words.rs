//! Lists in sentences.

/// "a, b and c".
pub(crate) fn listed(parts: &[String]) -> String {
    match parts {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The first `most` of a list, and how many more there are: "a; b; and 3 more".
pub(crate) fn few(parts: &[String], most: usize) -> String {
    let more = parts.len().saturating_sub(most);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{more}", parts[..parts.len().min(most)].join("; "))
}
