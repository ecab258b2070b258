//! The user's settings: a file with options by their long names.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Command;
use talaria::TrustModel;
use talaria::cert::Rules;
use toml::Value;

use crate::folders::base_folder;
use crate::policy::policy_named;

/// The options allowed in the file.
const OPTIONS: [&str; 6] =
    ["store", "keys", "policy", "trust-model", "tofu-default-policy", "gpg-agent"];
/// The options whose values are paths.
const PATHS: [&str; 2] = ["store", "keys"];

/// The values of options, by their long names.
#[derive(Debug, Default)]
pub(crate) struct Settings(BTreeMap<String, Vec<String>>);

/// The fault in the file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub(crate) struct SettingsError {
    path: PathBuf,
    why: String,
}

impl Settings {
    /// Reads the user's settings file: the file in `TALARIA_CONFIG`, or no file if that is empty;
    /// otherwise `talaria/config.toml` in the XDG configuration folder, if it exists.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], which gives the file and the line or the option.
    pub(crate) fn read() -> Result<Self, SettingsError> {
        let named = std::env::var_os("TALARIA_CONFIG");
        if named.as_ref().is_some_and(|name| name.is_empty()) {
            return Ok(Self::default());
        }
        let Some(path) = named.as_ref().map(PathBuf::from).or_else(default_path) else {
            return Ok(Self::default());
        };
        let failed = |why: String| SettingsError { path: path.clone(), why };
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text).map_err(failed),
            // The default file need not exist, and the home may be somebody else's, so the error is
            // ignored.
            Err(error) if named.is_none() && !matches!(error.kind(), ErrorKind::InvalidData) => {
                Ok(Self::default())
            }
            Err(error) => Err(failed(format!("cannot be read: {error}"))),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
            let line = line.map_or_else(String::new, |line| format!("line {line}: "));
            format!("{line}{}", error.message())
        })?;
        let mut settings = BTreeMap::new();
        for (name, value) in table {
            if !OPTIONS.contains(&name.as_str()) {
                let known = OPTIONS.join(", ");
                return Err(format!("unknown setting {name} (known: {known})"));
            }
            let values = match value {
                Value::Boolean(value) if name == "gpg-agent" => vec![value.to_string()],
                _ if name == "gpg-agent" => return Err(format!("{name} must be true or false")),
                Value::String(value) => vec![value],
                Value::Array(values) if name == "store" && !values.is_empty() => values
                    .into_iter()
                    .map(|value| match value {
                        Value::String(value) => Ok(value),
                        _ => Err(format!("{name} must be a list of strings")),
                    })
                    .collect::<Result<_, _>>()?,
                _ => return Err(format!("{name} must be a string in quotes")),
            };
            settings.insert(name.clone(), checked(&name, values)?);
        }
        Ok(Self(settings))
    }

    /// The values set for an option, by its long name.
    pub(crate) fn values(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Makes the settings the defaults for options that are neither on the command line nor in the
    /// environment.
    pub(crate) fn apply(&self, command: Command) -> Command {
        command
            .mut_args(|arg| match arg.get_long().and_then(|name| self.0.get(name)) {
                Some(values) => arg.default_values(values.clone()),
                None => arg,
            })
            .mut_subcommands(|command| self.apply(command))
    }
}

/// The values of an option, if they are valid.
fn checked(name: &str, values: Vec<String>) -> Result<Vec<String>, String> {
    for value in &values {
        let known = match name {
            "policy" => value.parse::<Rules>().map(|_| ()).map_err(|error| error.to_string()),
            "trust-model" => value.parse::<TrustModel>().map(|_| ()),
            "tofu-default-policy" => policy_named(value).map(|_| ()),
            _ if value.is_empty() => Err("a path must not be empty".to_owned()),
            _ => Ok(()),
        };
        known.map_err(|why| format!("{name} = {value:?}: {why}"))?;
    }
    let home = std::env::var("HOME").unwrap_or_default();
    let path = |value: String| match value.strip_prefix("~/") {
        Some(rest) if PATHS.contains(&name) => Path::new(&home).join(rest).display().to_string(),
        _ => value,
    };
    Ok(values.into_iter().map(path).collect())
}

fn default_path() -> Option<PathBuf> {
    Some(base_folder("XDG_CONFIG_HOME", ".config")?.join("talaria/config.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, why: &str) {
        let said = Settings::parse(text).unwrap_err();
        assert!(said.contains(why), "{text}: {said}");
    }

    #[test]
    fn errors_name_the_setting_or_the_line() {
        refused("trust-model = \"tofu\"\nstore = [", "line 2: ");
        refused("trust-model = \"tufo\"", "trust-model = \"tufo\": a trust model is one of pgp");
        refused("trust-model = 1", "trust-model must be a string");
        refused("tofu-default-policy = \"maybe\"", "one of auto, good");
        refused("gpg-agent = \"yes\"", "gpg-agent must be true or false");
        refused("store = [1]", "store must be a list of strings");
        refused("store = \"\"", "a path must not be empty");
        refused("passphrase-file = \"pw\"", "unknown setting passphrase-file");
    }

    #[test]
    fn a_switch_is_on_if_present() {
        let settings = Settings::parse("gpg-agent = true").unwrap();
        let command = settings.apply(crate::cli::command());
        let matches = command.try_get_matches_from(["talaria", "decrypt"]).unwrap();
        assert!(matches.subcommand().unwrap().1.get_flag("gpg_agent"));
    }

    #[test]
    fn settings_apply_to_global_and_command_options() {
        let text = "store = [\"/one.db\", \"/two.db\"]\ntrust-model = \"direct\"";
        let settings = Settings::parse(text).unwrap();
        let command = settings.apply(crate::cli::command());
        let matches = command.try_get_matches_from(["talaria", "list"]).unwrap();
        let stores: Vec<&PathBuf> = matches.get_many("store").unwrap().collect();
        assert_eq!(stores, [Path::new("/one.db"), Path::new("/two.db")]);
        let (_, list) = matches.subcommand().unwrap();
        assert_eq!(list.get_one("trust_model"), Some(&TrustModel::Direct));
    }
}
