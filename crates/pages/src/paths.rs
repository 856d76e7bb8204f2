//! Names of files without the folders of this machine.

use std::path::Path;

use dapple_plan::PlanSpec;

/// The plan as text, with the last part alone of each path that leads from the root of this machine. A page is made to be passed on, and
/// where somebody's files lie is nobody's business.
pub(crate) fn shown_plan(spec: &PlanSpec) -> String {
    let mut spec = spec.clone();
    spec.each_file(|_, path| *path = without_folders(path));
    spec.to_toml()
}

/// A path that leads from the root, by its last part; other texts as they are.
#[must_use]
pub fn without_folders(path: &str) -> String {
    let found = Path::new(path);
    match (found.is_absolute(), found.file_name()) {
        (true, Some(name)) => name.to_string_lossy().into_owned(),
        (true, None) => "the root folder".to_owned(),
        (false, _) => path.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_lose_their_folders() {
        assert_eq!(without_folders("/home/ada/photos/train"), "train");
        assert_eq!(without_folders("photos/train"), "photos/train");
        assert_eq!(without_folders("/"), "the root folder");
        let spec = PlanSpec::from_toml("[data]\ntrain = '/home/ada/train'\ntest = 'test'").unwrap();
        let text = shown_plan(&spec);
        assert!(text.contains("\"train\"") && text.contains("\"test\"") && !text.contains("ada"), "{text}");
    }
}
