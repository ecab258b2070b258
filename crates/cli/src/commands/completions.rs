//! `talaria completions`

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::context::{Content, Context};
use crate::error::CliError;
use crate::output::{Existing, Target};

/// Install or print shell completions
///
/// Commands, options, files, and the names of certificates and keys are completed. --install replaces the completions of an
/// earlier version.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell [default: the one in the environment variable SHELL]
    shell: Option<Shell>,
    /// Install the completions for your user (bash, zsh and fish) instead of printing them
    #[arg(long)]
    install: bool,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let shell = args.shell.or_else(Shell::from_env).ok_or_else(|| {
        CliError::Usage(
            "the environment variable SHELL names no known shell: add bash, zsh, fish, elvish or powershell".into(),
        )
    })?;
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string());
    let completer =
        completer.ok_or_else(|| CliError::Usage(format!("no completions for {shell}")))?;
    let mut script = Vec::new();
    completer.write_registration("COMPLETE", "talaria", "talaria", "talaria", &mut script)?;
    if !args.install {
        std::io::stdout().write_all(&script)?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = path(shell)?;
    if let Some(folder) = path.parent() {
        let failed = |source| talaria::Error::Io {
            action: "make",
            name: folder.display().to_string(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut target = Target::file(&path, Existing::Replaced)?;
    target.write_all(&script)?;
    target.keep(false)?;
    cx.status(format_args!("Installed {}.", path.display()));
    match shell {
        Shell::Zsh => cx.status(format_args!(
            "If it is not there yet, add this to ~/.zshrc before compinit: fpath=({} $fpath)",
            path.parent().unwrap_or(&path).display()
        )),
        // Without the package bash-completion, bash does not look into the folder.
        Shell::Bash => cx.status(format_args!(
            "Open a new shell to use it. If it does not work there: install the package bash-completion, or add this \
             to ~/.bashrc: source '{}'",
            path.display()
        )),
        _ => cx.status(format_args!("Open a new shell to use it.")),
    }
    let json = serde_json::json!({
        "action": "install_completions", "shell": shell.to_string(), "output": path,
    });
    cx.report(Content::Elsewhere, &json)?;
    Ok(ExitCode::SUCCESS)
}

/// The path where a shell looks for a user's completions.
fn path(shell: Shell) -> Result<PathBuf, CliError> {
    let named = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = || named("HOME").ok_or(CliError::NoHome { what: "completions" });
    let data = || {
        named("XDG_DATA_HOME").map_or_else(|| Ok(home()?.join(".local/share")), Ok::<_, CliError>)
    };
    let config =
        || named("XDG_CONFIG_HOME").map_or_else(|| Ok(home()?.join(".config")), Ok::<_, CliError>);
    Ok(match shell {
        Shell::Bash => data()?.join("bash-completion/completions/talaria"),
        Shell::Zsh => data()?.join("zsh/site-functions/_talaria"),
        Shell::Fish => config()?.join("fish/completions/talaria.fish"),
        _ => {
            return Err(CliError::Usage(format!(
                "{shell} has no folder for completions: add the output of `talaria completions {shell}` to its profile"
            )));
        }
    })
}
