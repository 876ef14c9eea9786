//! What a browser may run and fetch for the page: its own script, by its hash, and nothing else. A name that escaped
//! its place could not run.

use longwave_core::file::sha256_of;

pub(super) fn policy(script: &str) -> String {
    let hash = base64::encode(bytes(&sha256_of(script.as_bytes())));
    format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; \
         script-src 'sha256-{hash}'"
    )
}

/// The bytes of a number in base 16.
fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        let texts = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(base64::encode);
        assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
        assert_eq!(bytes("00ff1a"), [0, 255, 26]);
    }

    #[test]
    fn the_hash_is_that_of_the_script() {
        // printf 'alert(1)' | openssl dgst -sha256 -binary | base64
        assert!(
            policy("alert(1)").ends_with("script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='")
        );
    }
}
