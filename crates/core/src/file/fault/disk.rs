//! What a power cut would leave of a folder: the files as they were synced last, under the names that their folders had when
//! these were synced last.
//!
//! A picture is a folder with one file for each file and each folder that was synced, named after its inode. All else is lost, or,
//! where a test draws so, lasts in part: systems write in their own time what nobody syncs.

use crate::random::Stream;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The picture of a disk.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
}

struct InFolder {
    name: OsString,
    is_folder: bool,
    id: String,
}

enum Tree {
    File(Vec<u8>),
    Folder(BTreeMap<OsString, Tree>),
}

impl Disk {
    /// The picture that belongs to the mark of a fault.
    pub fn of(mark: &Path) -> Self {
        Self { folder: mark.with_extension("disk") }
    }

    /// Begins a picture in which all that is below `root` has reached the disk.
    pub fn begin(mark: &Path, root: &Path) -> io::Result<Self> {
        let disk = Self::of(mark);
        fs::create_dir_all(&disk.folder)?;
        disk.keep_all(root)?;
        Ok(disk)
    }

    fn keep_all(&self, folder: &Path) -> io::Result<()> {
        self.keep_names(folder)?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() { self.keep_all(&path)? } else { self.keep_file(&path)? }
        }
        Ok(())
    }

    /// One process at a time changes the picture.
    pub(super) fn lock(&self) -> io::Result<File> {
        let lock = File::create(self.folder.join("lock"))?;
        lock.lock()?;
        Ok(lock)
    }

    /// Counts an operation of all processes together.
    pub(super) fn count(&self) -> io::Result<u64> {
        let path = self.folder.join("count");
        let count = fs::read_to_string(&path).ok().and_then(|text| text.parse().ok()).unwrap_or(0) + 1;
        fs::write(path, count.to_string()).map(|()| count)
    }

    pub(super) fn keep_file(&self, path: &Path) -> io::Result<()> {
        let id = id(&fs::metadata(path)?);
        fs::copy(path, self.folder.join(format!("file-{id}")))?;
        // A second name, so that no later file gets the inode.
        let held = self.folder.join(format!("held-{id}"));
        if held.exists() { Ok(()) } else { fs::hard_link(path, held) }
    }

    pub(super) fn keep_names(&self, folder: &Path) -> io::Result<()> {
        let lines = names(folder)?.into_iter().map(|InFolder { name, is_folder, id }| {
            format!("{} {id} {}\n", if is_folder { "folder" } else { "file" }, name.to_string_lossy())
        });
        let id = id(&fs::metadata(folder)?);
        fs::write(self.folder.join(format!("names-{id}")), lines.collect::<String>())
    }

    fn kept_names(&self, id: &str) -> io::Result<Vec<InFolder>> {
        let path = self.folder.join(format!("names-{id}"));
        if !path.exists() {
            return Ok(Vec::new());
        }
        let name_of = |line: &str| {
            let mut parts = line.splitn(3, ' ');
            let (kind, id, name) = (parts.next()?, parts.next()?, parts.next()?);
            Some(InFolder { name: name.into(), is_folder: kind == "folder", id: id.to_owned() })
        };
        Ok(fs::read_to_string(path)?.lines().filter_map(name_of).collect())
    }

    /// Leaves below `root` what the picture holds. With `luck`, of each folder the names, and of each file the content, may
    /// be what they were when the power went, and half of what was appended may be there.
    pub fn restore(&self, root: &Path, luck: Option<&mut Stream>) -> io::Result<()> {
        let mut now = BTreeMap::new();
        folders(root, &mut now)?;
        let tree = Rebuild { disk: self, now, luck }.folder(&id(&fs::metadata(root)?))?;
        for InFolder { name, is_folder, .. } in names(root)? {
            let path = root.join(name);
            if is_folder { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
        write(root, &tree)
    }
}

struct Rebuild<'a> {
    disk: &'a Disk,
    /// Where each folder is when the power goes.
    now: BTreeMap<String, PathBuf>,
    luck: Option<&'a mut Stream>,
}

impl Rebuild<'_> {
    fn draw(&mut self, sides: u64) -> u64 {
        self.luck.as_deref_mut().map_or(0, |stream| stream.below(sides))
    }

    fn folder(&mut self, id: &str) -> io::Result<Tree> {
        let current = self.now.get(id).cloned();
        let lasts = self.draw(2) == 1;
        let names = match &current {
            Some(path) if lasts => names(path)?,
            _ => self.disk.kept_names(id)?,
        };
        let mut tree = BTreeMap::new();
        for InFolder { name, is_folder, id } in names {
            let path = current.as_ref().map(|folder| folder.join(&name));
            let entry = if is_folder { self.folder(&id)? } else { Tree::File(self.content(&id, path)?) };
            tree.insert(name, entry);
        }
        Ok(Tree::Folder(tree))
    }

    fn content(&mut self, id: &str, path: Option<PathBuf>) -> io::Result<Vec<u8>> {
        let in_picture = |kind: &str| self.disk.folder.join(format!("{kind}-{id}"));
        let read = |path: PathBuf| if path.exists() { fs::read(path) } else { Ok(Vec::new()) };
        let kept = read(in_picture("file"))?;
        let held = in_picture("held");
        let now = if held.exists() { read(held)? } else { path.map_or(Ok(Vec::new()), read)? };
        Ok(match self.draw(3) {
            1 => now,
            2 if now.starts_with(&kept) => now[..kept.len() + (now.len() - kept.len()) / 2].to_vec(),
            _ => kept,
        })
    }
}

fn names(folder: &Path) -> io::Result<Vec<InFolder>> {
    let name_of = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        let metadata = entry.metadata()?;
        Ok(InFolder { name: entry.file_name(), is_folder: metadata.is_dir(), id: id(&metadata) })
    };
    fs::read_dir(folder)?.map(name_of).collect()
}

fn folders(folder: &Path, found: &mut BTreeMap<String, PathBuf>) -> io::Result<()> {
    found.insert(id(&fs::metadata(folder)?), folder.to_owned());
    let below = names(folder)?.into_iter().filter(|name| name.is_folder);
    below.into_iter().try_for_each(|name| folders(&folder.join(name.name), found))
}

fn write(path: &Path, tree: &Tree) -> io::Result<()> {
    match tree {
        Tree::File(bytes) => fs::write(path, bytes),
        Tree::Folder(entries) => {
            fs::create_dir_all(path)?;
            entries.iter().try_for_each(|(name, entry)| write(&path.join(name), entry))
        }
    }
}

/// What tells a file from all others, also from one of before that had its inode.
fn id(metadata: &Metadata) -> String {
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(metadata);
    #[cfg(not(unix))]
    let inode = 0;
    let born = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("{inode}-{}", born.map_or(0, |born| born.as_nanos()))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn left(act: impl FnOnce(&Disk, &Path), luck: Option<u64>) -> Vec<(String, String)> {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("old"), "old").unwrap();
        let disk = Disk::begin(&top.path().join("mark"), &root).unwrap();
        act(&disk, &root);
        disk.restore(&root, luck.map(|seed| Stream::new(seed, "luck", 0)).as_mut()).unwrap();
        let mut left: Vec<(String, String)> = names(&root)
            .unwrap()
            .iter()
            .map(|name| {
                let name = name.name.to_string_lossy().into_owned();
                let held = fs::read_to_string(root.join(&name)).unwrap_or("a folder".to_owned());
                (name, held)
            })
            .collect();
        left.sort();
        left
    }

    fn expected(names: &[(&str, &str)]) -> Vec<(String, String)> {
        names.iter().map(|(name, held)| ((*name).to_owned(), (*held).to_owned())).collect()
    }

    #[test]
    fn what_is_not_synced_is_lost() {
        let unsynced = |_: &Disk, root: &Path| {
            fs::write(root.join("new"), "new").unwrap();
            fs::remove_file(root.join("old")).unwrap();
            fs::create_dir(root.join("folder")).unwrap();
        };
        assert_eq!(left(unsynced, None), expected(&[("old", "old")]));
        let renamed = |disk: &Disk, root: &Path| {
            fs::write(root.join("new"), "new").unwrap();
            disk.keep_file(&root.join("new")).unwrap();
            fs::write(root.join("new"), "newer").unwrap();
            fs::rename(root.join("new"), root.join("old")).unwrap();
        };
        assert_eq!(left(renamed, None), expected(&[("old", "old")]), "the rename is lost");
        let named = |disk: &Disk, root: &Path| {
            renamed(disk, root);
            disk.keep_names(root).unwrap();
        };
        assert_eq!(left(named, None), expected(&[("old", "new")]), "what was written after the sync is lost");
        let empty = |disk: &Disk, root: &Path| {
            fs::write(root.join("new"), "new").unwrap();
            fs::create_dir(root.join("folder")).unwrap();
            fs::write(root.join("folder/file"), "new").unwrap();
            disk.keep_names(root).unwrap();
        };
        assert_eq!(left(empty, None), expected(&[("folder", "a folder"), ("new", ""), ("old", "old")]));
    }

    #[test]
    fn with_luck_some_of_it_lasts() {
        let appended = |_: &Disk, root: &Path| fs::write(root.join("old"), "oldnew").unwrap();
        let mut seen: Vec<String> = (0..40).map(|seed| left(appended, Some(seed))[0].1.clone()).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, ["old", "oldn", "oldnew"]);
    }
}
