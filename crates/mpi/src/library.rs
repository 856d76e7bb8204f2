//! Where the library of a launcher may lie.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::launch::MpiFamily;

/// The variable that names the library to load.
const NAMED: &str = "DAPPLE_MPI";

/// The names of libraries: Open MPI 4 and 5, MPICH and what is compatible with it, the standard's own interface.
const OPEN_MPI: [&str; 1] = ["libmpi.so.40"];
const MPICH: [&str; 2] = ["libmpi.so.12", "libmpich.so.12"];
const STANDARD: [&str; 2] = ["libmpi_abi.so.1", "libmpi_abi.so.0"];
const UNVERSIONED: [&str; 2] = ["libmpi.so", "libmpi.dylib"];

/// The names and paths to try for a launcher, in order.
pub(crate) fn candidates(family: MpiFamily) -> Vec<PathBuf> {
    let (prefix, path) = (std::env::var_os("OPAL_PREFIX"), std::env::var_os("PATH"));
    let folders = folders(prefix.as_deref().map(Path::new), parent().as_deref(), path.as_deref());
    in_order(family, std::env::var_os(NAMED).as_deref().map(Path::new), &folders)
}

fn in_order(family: MpiFamily, named: Option<&Path>, folders: &[PathBuf]) -> Vec<PathBuf> {
    if let Some(named) = named.filter(|named| !named.as_os_str().is_empty()) {
        return vec![named.to_owned()];
    }
    let names: Vec<&str> = match family {
        MpiFamily::OpenMpi | MpiFamily::Any => [&OPEN_MPI[..], &STANDARD, &MPICH, &UNVERSIONED].concat(),
        MpiFamily::Mpich => [&MPICH[..], &STANDARD, &UNVERSIONED].concat(),
    };
    // The library beside the launcher belongs to it, whatever else is installed.
    let beside = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
    let beside = beside.filter(|path| path.is_file());
    beside.chain(names.iter().map(PathBuf::from)).collect()
}

/// The folders of libraries beside the launcher: where Open MPI says that it lies, where the process that started this one lies, and where the
/// launcher that would be found first does.
fn folders(prefix: Option<&Path>, parent: Option<&Path>, path: Option<&OsStr>) -> Vec<PathBuf> {
    let launches = |folder: &PathBuf| folder.join("mpirun").is_file() || folder.join("mpiexec").is_file();
    let installed = path.and_then(|path| std::env::split_paths(path).find(launches));
    let above = |folder: &Path| folder.parent().map(Path::to_owned);
    let roots = [
        prefix.map(Path::to_owned),
        parent.and_then(Path::parent).and_then(above),
        installed.as_deref().and_then(above),
    ];
    roots.into_iter().flatten().map(|root| root.join("lib")).collect()
}

/// The program that started this process, where the system tells.
fn parent() -> Option<PathBuf> {
    #[cfg(target_os = "linux")]
    return std::fs::read_link(format!("/proc/{}/exe", std::os::unix::process::parent_id())).ok();
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_library_is_the_only_one_tried() {
        let named = Path::new("/opt/mpi/libmpi.so");
        assert_eq!(in_order(MpiFamily::Mpich, Some(named), &[]), [named]);
        let open = in_order(MpiFamily::OpenMpi, Some(Path::new("")), &[]);
        assert_eq!(open[0], Path::new("libmpi.so.40"));
        assert_eq!(in_order(MpiFamily::Mpich, None, &[])[0], Path::new("libmpi.so.12"));
    }

    #[test]
    fn the_library_beside_the_launcher_comes_first() {
        let root = std::env::temp_dir().join(format!("dapple-mpi-library-{}", std::process::id()));
        let (bin, lib) = (root.join("bin"), root.join("lib"));
        for (folder, file) in [(&bin, "mpirun"), (&lib, "libmpi_abi.so.1")] {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join(file), "").unwrap();
        }
        let path = std::env::join_paths([root.as_path(), &bin]).unwrap();
        let found = folders(None, None, Some(&path));
        assert_eq!(found, [lib.as_path()]);
        assert_eq!(folders(None, Some(&bin.join("orted")), None), found);
        assert_eq!(in_order(MpiFamily::Any, None, &found)[0], lib.join("libmpi_abi.so.1"));
        std::fs::remove_dir_all(root).unwrap();
    }
}
