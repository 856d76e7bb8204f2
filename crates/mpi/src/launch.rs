//! Whether a launcher started this process as one of several.

/// The kind of MPI whose launcher started a process, which says which library to look for first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MpiFamily {
    /// Open MPI.
    OpenMpi,
    /// MPICH and what is compatible with it.
    Mpich,
    /// A launcher that serves every kind, such as Slurm with PMIx.
    Any,
}

/// What a launcher says of the processes that it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Whose launcher it was.
    pub family: MpiFamily,
    /// How many processes there are, where the launcher tells before MPI is asked.
    pub size: Option<usize>,
    /// The number of this process among them, where it tells that.
    pub rank: Option<usize>,
}

impl Launch {
    /// What the environment of this process says; `None` if no launcher started it, or if it is the only process.
    ///
    /// A job step of Slurm without MPI is no launch: its tasks know nothing of each other.
    #[must_use]
    pub fn detect() -> Option<Self> {
        Self::of(|name| std::env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name| variable(name)?.trim().parse::<usize>().ok();
        let launch = if let Some(size) = number("OMPI_COMM_WORLD_SIZE") {
            Self { family: MpiFamily::OpenMpi, size: Some(size), rank: number("OMPI_COMM_WORLD_RANK") }
        } else if let (Some(size), Some(rank)) = (number("PMI_SIZE"), number("PMI_RANK")) {
            Self { family: MpiFamily::Mpich, size: Some(size), rank: Some(rank) }
        } else if let (Some(_), Some(rank)) = (variable("PMIX_NAMESPACE"), number("PMIX_RANK")) {
            let size = number("SLURM_STEP_NUM_TASKS").or_else(|| number("SLURM_NTASKS"));
            Self { family: MpiFamily::Any, size, rank: Some(rank) }
        } else {
            return None;
        };
        (launch.size != Some(1)).then_some(launch)
    }

    /// Whether there are other processes by what the launcher says.
    #[must_use]
    pub fn tells_of_others(&self) -> bool {
        self.size.is_some_and(|size| size > 1) || self.rank.is_some_and(|rank| rank > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<Launch> {
        let find =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Launch::of(find)
    }

    #[test]
    fn launchers_are_told_apart() {
        let launch = |family, size, rank| Some(Launch { family, size, rank });
        let open = [("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "a")];
        assert_eq!(of(&open), launch(MpiFamily::OpenMpi, Some(4), None));
        assert_eq!(of(&[("PMI_SIZE", "2"), ("PMI_RANK", "0")]), launch(MpiFamily::Mpich, Some(2), Some(0)));
        let slurm = [("PMIX_RANK", "3"), ("PMIX_NAMESPACE", "slurm.pmix.1.0"), ("SLURM_STEP_NUM_TASKS", "8")];
        assert_eq!(of(&slurm), launch(MpiFamily::Any, Some(8), Some(3)));
        assert_eq!(of(&slurm[..2]), launch(MpiFamily::Any, None, Some(3)));
    }

    #[test]
    fn a_launcher_tells_of_others_by_a_size_or_a_rank() {
        let others =
            |variables: &[(&str, &str)]| of(variables).is_some_and(|launch| launch.tells_of_others());
        assert!(others(&[("OMPI_COMM_WORLD_SIZE", "2")]));
        assert!(others(&[("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "a")]));
        assert!(!others(&[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "a")]));
    }

    #[test]
    fn a_process_that_is_alone_needs_no_mpi() {
        for alone in [
            &[][..],
            &[("OMPI_COMM_WORLD_SIZE", "1")],
            &[("PMI_SIZE", "1"), ("PMI_RANK", "0")],
            &[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "a"), ("SLURM_NTASKS", "1")],
            // A job step of Slurm without MPI, and half a launcher.
            &[("SLURM_PROCID", "1"), ("SLURM_NTASKS", "4"), ("SLURM_STEP_NUM_TASKS", "4")],
            &[("PMI_SIZE", "4")],
            &[("OMPI_COMM_WORLD_SIZE", "many")],
        ] {
            assert_eq!(of(alone), None, "{alone:?}");
        }
    }
}
