//! What does not compare is refused before anything is run: losses of other tokens, and numbers of other text.

use super::study;
use crate::common::Project;

/// A study over tokenizers; `ranked` is its `best`.
fn tokenizers(ranked: &str, more: &str) -> String {
    format!(
        "name = \"two\"\nbase = \"small.toml\"\nseeds = 2\nthreads = 1\nbest = {ranked}\n[set]\ntrain = {{ steps = 4 }}\n\
         [[axis]]\nname = \"tokenizer\"\nkey = \"data.tokenizer\"\n\
         values = [{{ kind = \"bytes\" }}, {{ kind = \"bpe\", vocab_size = 270 }}]\n\
         [[evaluate]]\nlengths = [\"L\"]\nextend = [\"direct\"]\n{more}"
    )
}

#[test]
fn losses_of_other_tokens_are_refused() {
    let project = Project::new();
    project.write("two.toml", &tokenizers("\"L\"", ""));
    let refused = study(&project, &["--dry-run"]).refused(2);
    insta::assert_snapshot!("a_ranking_over_tokenizers", refused);
    let claim = "[[claim]]\nsays = \"bytes < bpe vocab_size=270 at L\"\n";
    project.write("two.toml", &tokenizers("\"L\"", claim).replace("best = \"L\"\n", ""));
    let refused = study(&project, &["--dry-run"]).refused(2);
    insta::assert_snapshot!("a_claim_over_tokenizers", refused);
}

#[test]
fn other_corpora_are_never_ranked() {
    let project = Project::new();
    let words = "other words altogether, and more of them than before. ".repeat(60);
    for split in ["train", "valid", "test"] {
        for index in 0..3 {
            project.write(&format!("other/{split}/{index}.txt"), &words[index..]);
        }
    }
    for best in ["\"L\"", "{ at = \"L\", metric = \"bits_per_byte\" }"] {
        project.write(
            "two.toml",
            &format!(
                "name = \"two\"\nbase = \"small.toml\"\nseeds = 2\nbest = {best}\n[[axis]]\nkey = \"data.corpus\"\n\
                 values = [\"corpus\", \"other\"]\n[[evaluate]]\nlengths = [\"L\"]\nextend = [\"direct\"]\n"
            ),
        );
        study(&project, &["--dry-run"]).refuses(2, &["different text, `corpus` and `other`"]);
    }
}
