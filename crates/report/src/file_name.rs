//! Names of files that say what is in them.

/// A name with only those signs that every file system and every address has.
pub(crate) fn file_name_of(name: &str) -> String {
    let mut text = String::new();
    for sign in name.chars().take(60) {
        if sign.is_ascii_alphanumeric() || sign == '_' || sign == '.' {
            text.push(sign);
        } else if !text.is_empty() && !text.ends_with('-') {
            text.push('-');
        }
    }
    text.trim_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_has_plain_signs_only() {
        assert_eq!(file_name_of("rope, base = 1e4"), "rope-base-1e4");
        assert_eq!(file_name_of("../a/<b>"), "a-b");
        assert_eq!(file_name_of("L2_norm 0.5"), "L2_norm-0.5");
    }
}
