//! The `dapple` command line.

fn main() -> anyhow::Result<()> {
    Ok(())
}
