use super::*;

fn job() -> Job {
    let plan = crate::plan::tests::plan("[[evaluate]]\nlengths = [128]");
    plan.runs[0].job.clone().unwrap()
}

#[test]
fn a_run_is_finished_by_its_rows_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let job = job();
    assert_eq!((store.work(&job), store.rows(&job).unwrap()), (Work::Open, None));
    let failure = Failure { reason: "no memory".into(), hint: None };
    store.fail(&job, &failure).unwrap();
    assert_eq!((store.work(&job), store.failure(&job).unwrap()), (Work::Failed, Some(failure)));
    store.forget_failure(&job).unwrap();
    fs::create_dir_all(store.run(&job.key)).unwrap();
    store.finish(&job, &[]).unwrap();
    assert_eq!(store.work(&job), Work::Finished);
    let other = Job { evaluation: "other".into(), ..job };
    assert_eq!(store.work(&other), Work::Open);
}

#[test]
fn one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let lock = store.try_lock("a").unwrap();
    assert!(lock.is_some() && store.try_lock("a").unwrap().is_none());
    assert!(store.try_lock("b").unwrap().is_some());
    drop(lock);
    assert!(store.try_lock("a").unwrap().is_some());
}

#[test]
fn leftovers_of_killed_processes_are_removed_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let checkpoints = store.run("k").join("checkpoints");
    fs::create_dir_all(&checkpoints).unwrap();
    for path in [checkpoints.join(".last.safetensors.7.part"), store.run("k").join(".config.toml.7.part")] {
        fs::write(path, "half").unwrap();
    }
    fs::write(checkpoints.join("last.safetensors"), "whole").unwrap();
    store.remove_leftovers("k");
    assert_eq!(fs::read_dir(&checkpoints).unwrap().count(), 1);
    assert_eq!(fs::read_dir(store.run("k")).unwrap().count(), 1);
}

#[test]
fn the_journal_survives_a_cut_line() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let job = job();
    let _lock = store.try_lock(&job.key).unwrap();
    store.note(&job, "started", None).unwrap();
    store.note(&job, "finished", None).unwrap();
    let path = store.journal(&job.key);
    let text = fs::read_to_string(&path).unwrap() + "{\"event\": \"sta";
    fs::write(&path, text).unwrap();
    let events: Vec<String> =
        store.journal_lines(&job.key).unwrap().into_iter().map(|entry| entry.event).collect();
    assert_eq!(events, ["started", "finished"]);
}

#[test]
fn removing_leaves_what_is_being_worked_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let key = "0123456789abcdef";
    fs::create_dir_all(store.run(key)).unwrap();
    assert_eq!(store.keys().unwrap(), [key]);
    let lock = store.try_lock(key).unwrap();
    assert!(!store.remove(key).unwrap());
    drop(lock);
    assert!(store.remove(key).unwrap() && store.keys().unwrap().is_empty());
    // A run that failed before it had a folder.
    store.note(&Job { key: key.to_owned(), ..job() }, "failed", None).unwrap();
    assert_eq!((store.keys().unwrap().len(), store.begun().unwrap()), (0, vec![key.to_owned()]));
    assert!(store.remove(key).unwrap() && store.begun().unwrap().is_empty());
}

#[test]
fn a_file_that_is_named_after_no_key_removes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(&folder.path().join("store"));
    let key = "0123456789abcdef";
    fs::create_dir_all(store.run(key)).unwrap();
    fs::create_dir_all(store.folder().join("state")).unwrap();
    fs::write(folder.path().join("beside"), "").unwrap();
    // What comes before the end of the name: `..`, nothing, `.`, and words.
    for name in ["..", "", ".", "state", "0123456789abcde", "0123456789abcdeg"] {
        fs::write(store.state(&format!("{name}.journal.jsonl")), "").unwrap();
        assert_eq!(store.begun().unwrap(), [key], "{name}");
        let error = store.remove(name).unwrap_err();
        assert!(error.message().contains("no key") && error.hint_text().is_some(), "{error}");
    }
    let states = fs::read_dir(store.folder().join("state")).unwrap().count();
    assert_eq!((states, store.keys().unwrap().len()), (6, 1));
    assert!(folder.path().join("beside").exists());
}

#[test]
fn studies_recorded_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(&folder.path().join("store"));
    assert!(store.studies_recorded().unwrap().is_empty());
    let elsewhere = folder.path().join("elsewhere");
    store.note_study(&elsewhere).unwrap();
    store.note_study(&elsewhere).unwrap();
    let [(found, record)] = &store.studies_recorded().unwrap()[..] else { panic!("it is recorded once") };
    assert_eq!(found, &elsewhere);
    // Moved with the store, it is found from there.
    fs::create_dir(folder.path().join("moved")).unwrap();
    fs::write(record, "/nowhere/moved\n../moved").unwrap();
    assert_eq!(store.studies_recorded().unwrap()[0].0, store.folder().join("../moved"));
    fs::write(record, "/nowhere/moved\n../away").unwrap();
    assert_eq!(store.studies_recorded().unwrap()[0].0, Path::new("/nowhere/moved"));
}
