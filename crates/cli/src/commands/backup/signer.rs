//! `talaria backup signer`

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use talaria::backup::{Authority, Role};
use talaria::store::Query;

use super::access::AccessArgs;
use super::people::member;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::query::parse_query;

/// Manage keys that may create, forget and prune, besides the owner's
///
/// The owner has all roles. A client or reader gets further ones here; to prune, it must be a
/// reader.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Set the roles of a reader or client
    Add(AddArgs),
    /// Take all roles from a certificate
    Remove(RemoveArgs),
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// Certificate: a fingerprint, or the address of a confirmed certificate
    #[arg(value_name = "CERT", value_parser = parse_query)]
    cert: Query,
    /// Role (can be repeated)
    #[arg(long, required = true, value_name = "ROLE")]
    role: Vec<RoleName>,
    #[command(flatten)]
    by: By,
}

#[derive(Debug, clap::Args)]
struct RemoveArgs {
    /// Certificate: a fingerprint, or the address of a confirmed certificate
    #[arg(value_name = "CERT", value_parser = parse_query)]
    cert: Query,
    #[command(flatten)]
    by: By,
}

/// The signer of the change.
#[derive(Debug, clap::Args)]
struct By {
    /// Key to sign the change with [default: your only key with this role]
    #[arg(long, short = 'u', visible_alias = "local-user", value_name = "KEY")]
    sign_with: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RoleName {
    /// Create snapshots
    Create,
    /// Forget snapshots of all clients
    Forget,
    /// Delete content that no snapshot needs
    Prune,
    /// Change roles, readers and clients
    Admin,
}

impl RoleName {
    fn role(self) -> Role {
        match self {
            Self::Create => Role::Create,
            Self::Forget => Role::Forget,
            Self::Prune => Role::Prune,
            Self::Admin => Role::Admin,
        }
    }
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let (cert, roles, by) = match &args.command {
        Command::Add(AddArgs { cert, role, by }) => {
            (cert, role.iter().map(|role| role.role()).collect(), by)
        }
        Command::Remove(RemoveArgs { cert, by }) => (cert, BTreeSet::new(), by),
    };
    let mut session = by.access.open(place, cx)?;
    let name = member(cert, &session, cx)?;
    let (mut signer, own) =
        by.access.signer(by.sign_with.as_deref(), &session, Authority::Role(Role::Admin), cx)?;
    let signer = (&own.fingerprint(), &mut signer);
    session.set_roles(&name, roles.clone(), signer, cx.now)?;
    let config = session.repository.config();
    let roles: Vec<&str> = roles.iter().map(|role| role.name()).collect();
    if cx.json {
        let json = serde_json::json!({
            "action": "backup signer", "certificate": name.to_hex(), "roles": roles,
            "configuration": config.number,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else if roles.is_empty() {
        cx.status(format_args!("{} has no roles now.", name.to_hex()));
    } else {
        cx.status(format_args!("{} has the roles {} now.", name.to_hex(), roles.join(", ")));
    }
    Ok(ExitCode::SUCCESS)
}
