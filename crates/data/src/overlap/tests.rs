use super::*;
use crate::config::DataConfig;
use crate::corpus;
use crate::testing::folder;

/// What the documents of a folder have in common, of no more than `most` remembered.
fn overlap(files: &[(String, String)], most: [usize; 2]) -> Overlap {
    let folder = folder(files);
    let config = DataConfig::new(folder.path().to_str().unwrap());
    let corpus = corpus::find(&config, "data.corpus").unwrap();
    let documents = Documents { corpus: &corpus, config: &config };
    let rule = documents.split_rule().unwrap();
    let mut comparison = Comparison::new(most, &documents, &rule, &mut |_| ()).unwrap();
    let visited = documents.visit(&rule, &[Split::Train], &mut |event| {
        match event {
            Event::Piece { bytes, .. } => comparison.train(bytes),
            Event::End { .. } => comparison.train_end(),
            Event::Read(_) => {}
        }
        Ok(())
    });
    visited.unwrap();
    assert!(comparison.documents.len() <= most[0] && comparison.held_out.len() <= most[1]);
    comparison.finish()
}

fn words(range: std::ops::Range<usize>) -> String {
    range.map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ")
}

fn files(texts: &[(&str, String)]) -> Vec<(String, String)> {
    texts
        .iter()
        .enumerate()
        .map(|(index, (split, text))| (format!("{split}/{index:03}.txt"), text.clone()))
        .collect()
}

#[test]
fn a_document_is_contained_from_a_share_of_its_n_grams_on() {
    // 20 n-grams of 32 words, 14 of them of the first 26; eight are enough to be judged, seven are not.
    for (shared, contained) in [(26, 1), (25, 0)] {
        let test = words(0..shared) + " " + &words(500..532 - shared);
        let texts =
            [("train", words(0..200)), ("test", test), ("test", words(1000..1020)), ("test", words(0..19))];
        let [_, found] = overlap(&files(&texts), MOST).held_out;
        let shared = shared as u64 - 12;
        let expected =
            HeldOut { grams: 20 + 8 + 7, found: shared + 7, judged: 2, contained, most: [0, 20, shared] };
        assert_eq!(found, expected);
    }
}

/// Where not all can be remembered, what is compared is a fair sample.
#[test]
fn a_sample_has_the_shares_of_the_whole() {
    let mut texts = Vec::new();
    for document in 0..400 {
        let own = words(1000 * document..1000 * document + 112);
        texts.push(("train", own.clone()));
        // Every second one is there twice, every fourth is a test document too, and every eighth half of one.
        texts.extend((document % 2 == 0).then(|| ("train", own.clone())));
        texts.extend((document % 4 == 0).then_some(("test", own)));
        let half = || {
            words(1000 * document..1000 * document + 62)
                + " "
                + &words(1000 * document + 500..1000 * document + 550)
        };
        texts.extend((document % 8 == 1).then(|| ("test", half())));
    }
    let whole = overlap(&files(&texts), MOST);
    assert_eq!((whole.repeated, whole.in_train, whole.test_in_valid), ([200, 0, 0], [0, 0, 100], 0));
    let [_, test] = whole.held_out;
    assert_eq!((test.grams, test.found, test.judged, test.contained), (15_000, 12_500, 150, 100));

    let part = overlap(&files(&texts), [200, 3000]);
    let every = (part.documents_every, part.grams_every);
    assert_eq!(every, (4, 8), "750 documents, and 15,000 n-grams");
    let close = |part: u64, every: u64, whole: u64| {
        let ratio = (part * every) as f64 / whole as f64;
        assert!((0.7..1.3).contains(&ratio), "{part} in {every} of {whole}");
    };
    close(part.repeated[0], every.0, 200);
    close(part.in_train[2], every.0, 100);
    let [_, test] = part.held_out;
    close(test.grams, every.1, 15_000);
    close(test.found, every.1, 12_500);
    let share = test.contained as f64 / test.judged as f64;
    assert!((0.6..0.8).contains(&share), "{share} of documents, where it is two thirds");
}
