//! URLs of repositories.

use std::fmt::Write as _;
use std::time::Duration;

/// How long one request may take, besides the time for its bytes.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often a request is sent before its error is final.
const ATTEMPTS: u32 = 5;
/// The maximum of both that a URL can ask for.
const TIMEOUT_SECONDS_MAX: u64 = 3600;
const ATTEMPTS_MAX: u32 = 20;

/// The reason why a URL is not that of a repository.
#[derive(Debug, thiserror::Error)]
#[error("{url} is not a valid repository URL: {why}")]
pub struct RepositoryUrlError {
    /// The URL, without a password.
    pub url: String,
    /// The reason.
    pub why: String,
}

/// Whether a name of a repository is a URL, and not the path of a folder.
#[must_use]
pub fn is_url(name: &str) -> bool {
    name.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// The service of a repository.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Service {
    S3 {
        bucket: String,
        endpoint: Option<String>,
        region: String,
        keys: Option<Keys>,
    },
    /// `endpoint` is `ssh://host:port`; the root may be relative to the user's home folder.
    Sftp {
        endpoint: String,
        user: Option<String>,
        key: Option<String>,
    },
    /// `endpoint` is `http://host:port`.
    WebDav {
        endpoint: String,
        user: Option<String>,
        password: Option<String>,
    },
}

/// Keys of S3 from the environment.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Keys {
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The address of a repository: `s3://`, `sftp://`, `webdav://` or `webdavs://`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RepositoryUrl {
    pub(crate) service: Service,
    /// The folder of the repository, without a slash at its end.
    pub(crate) root: String,
    name: String,
    pub(crate) timeout: Duration,
    pub(crate) attempts: u32,
    /// The service lists an object as soon as it was written.
    pub(crate) lists_at_once: bool,
}

impl RepositoryUrl {
    /// Parses a URL. `env` gives variables of the environment: those of AWS, `TALARIA_WEBDAV_USER`
    /// and `TALARIA_WEBDAV_PASSWORD`.
    ///
    /// # Errors
    ///
    /// [`RepositoryUrlError`] for every other scheme, for a password in the URL, and for options
    /// that the scheme does not have.
    pub fn parse(
        url: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, RepositoryUrlError> {
        let mut shown = url.to_owned();
        let parsed = Self::parts(url, env, &mut shown);
        parsed.map_err(|why| RepositoryUrlError { url: shown, why })
    }

    fn parts(
        url: &str,
        env: &dyn Fn(&str) -> Option<String>,
        shown: &mut String,
    ) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or("it has no scheme")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if let Some((user, _)) = user.and_then(|user| user.split_once(':')) {
            *shown = format!("{scheme}://{user}:…@{host}/{path}");
            return Err(
                "a password in a URL can be seen by other users of the machine: give it in \
                        TALARIA_WEBDAV_PASSWORD, or use an SSH key"
                    .into(),
            );
        }
        if host.is_empty() {
            return Err("it names no host or bucket".into());
        }
        let user = user.map(decoded).transpose()?;
        let root = decoded(path.trim_end_matches('/'))?;
        if root.split('/').any(|part| part == ".." || part == ".") {
            return Err("\"..\" and \".\" are not allowed in its path".into());
        }
        let mut options = Options::parse(query)?;
        let timeout = options.number("timeout", TIMEOUT_SECONDS_MAX)?;
        let attempts = options.number("attempts", u64::from(ATTEMPTS_MAX))?;
        let lists_at_once = match options.take("list")?.as_deref() {
            None | Some("at-once") => true,
            Some("late") => false,
            Some(_) => return Err("the option list is at-once or late".into()),
        };
        let mut name = format!("{scheme}://");
        let service = match scheme {
            "s3" => {
                if user.is_some() {
                    return Err("keys of S3 come from the environment or ~/.aws".into());
                }
                let endpoint = options.take("endpoint")?;
                let endpoint = endpoint.or_else(|| env("AWS_ENDPOINT_URL_S3"));
                let endpoint = endpoint.or_else(|| env("AWS_ENDPOINT_URL"));
                let region = options.take("region")?.or_else(|| env("AWS_REGION"));
                let region = region.or_else(|| env("AWS_DEFAULT_REGION"));
                // Services other than AWS mostly have one region, of any name.
                let region = region.or_else(|| endpoint.is_some().then(|| "us-east-1".into()));
                let region =
                    region.ok_or("the region of the bucket is not known: add ?region=NAME")?;
                let _ = write!(name, "{host}/{root}");
                if let Some(endpoint) = &endpoint {
                    let _ = write!(name, "?endpoint={endpoint}");
                }
                let pair = env("AWS_ACCESS_KEY_ID").zip(env("AWS_SECRET_ACCESS_KEY"));
                let token = env("AWS_SESSION_TOKEN");
                let keys = pair.map(|(id, secret)| Keys { id, secret, token });
                Service::S3 { bucket: host.to_owned(), endpoint, region, keys }
            }
            "sftp" => {
                let key = options.take("key")?;
                let shown_user = user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
                let _ = write!(name, "{shown_user}{host}/{root}");
                Service::Sftp { endpoint: format!("ssh://{host}"), user, key }
            }
            "webdav" | "webdavs" => {
                let transport = if scheme == "webdav" { "http" } else { "https" };
                let _ = write!(name, "{host}/{root}");
                Service::WebDav {
                    endpoint: format!("{transport}://{host}"),
                    user: user.or_else(|| env("TALARIA_WEBDAV_USER")),
                    password: env("TALARIA_WEBDAV_PASSWORD"),
                }
            }
            other => {
                return Err(format!(
                    "{other}:// is not known; use a folder, s3://, sftp://, webdav:// or webdavs://"
                ));
            }
        };
        options.end()?;
        let root = match &service {
            // Below the home folder of the user there.
            Service::Sftp { .. } if root == "~" => String::new(),
            Service::Sftp { .. } if root.starts_with("~/") => root[2..].to_owned(),
            _ => format!("/{root}"),
        };
        Ok(Self {
            service,
            root,
            name,
            timeout: timeout.map_or(TIMEOUT, Duration::from_secs),
            attempts: attempts.and_then(|n| u32::try_from(n).ok()).unwrap_or(ATTEMPTS),
            lists_at_once,
        })
    }

    /// The address without options that do not matter for which repository it is.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The options after the `?`.
struct Options<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Options<'a> {
    fn parse(query: &'a str) -> Result<Self, String> {
        let parts = query.split('&').filter(|part| !part.is_empty());
        let options = parts.map(|part| {
            part.split_once('=').ok_or_else(|| format!("the option \"{part}\" has no value"))
        });
        Ok(Self(options.collect::<Result<_, _>>()?))
    }

    fn take(&mut self, name: &str) -> Result<Option<String>, String> {
        let Some(place) = self.0.iter().position(|(known, _)| *known == name) else {
            return Ok(None);
        };
        decoded(self.0.remove(place).1).map(Some)
    }

    fn number(&mut self, name: &str, max: u64) -> Result<Option<u64>, String> {
        let Some(text) = self.take(name)? else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (1..=max).contains(number));
        number.map(Some).ok_or_else(|| format!("the option {name} is a number from 1 to {max}"))
    }

    fn end(self) -> Result<(), String> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(format!("it has no option \"{name}\"")),
        }
    }
}

/// Resolves `%41`.
fn decoded(text: &str) -> Result<String, String> {
    let wrong = || format!("\"{text}\" has a % without two hexadecimal digits, or is not UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
            bytes.push(u8::try_from(high * 16 + low).map_err(|_| wrong())?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<RepositoryUrl, String> {
        RepositoryUrl::parse(url, &|_| None).map_err(|error| error.to_string())
    }

    #[test]
    fn urls_name_service_folder_and_options() {
        let s3 =
            parse("s3://bucket/a/b/?region=eu-1&endpoint=http://127.0.0.1:1&timeout=5").unwrap();
        assert_eq!(s3.root, "/a/b");
        assert_eq!(s3.timeout, Duration::from_secs(5));
        assert_eq!(s3.name(), "s3://bucket/a/b?endpoint=http://127.0.0.1:1");
        let Service::S3 { bucket, endpoint, region, keys: None } = s3.service else {
            panic!("{s3:?}")
        };
        assert_eq!((&*bucket, &*region), ("bucket", "eu-1"));
        assert_eq!(endpoint.as_deref(), Some("http://127.0.0.1:1"));
        let sftp = parse("sftp://al%69ce@host:2222/srv/back%20up?key=/k").unwrap();
        assert_eq!(sftp.root, "/srv/back up");
        assert_eq!(
            sftp.service,
            Service::Sftp {
                endpoint: "ssh://host:2222".into(),
                user: Some("alice".into()),
                key: Some("/k".into())
            }
        );
        assert_eq!(parse("sftp://host/~/backup").unwrap().root, "backup");
        let lists = |url: &str| parse(url).unwrap().lists_at_once;
        assert!(lists("webdav://h/x") && !lists("webdav://h/x?list=late"));
        let dav = parse("webdavs://host/dav/").unwrap();
        assert_eq!((&*dav.root, dav.name()), ("/dav", "webdavs://host/dav"));
        let Service::WebDav { endpoint, .. } = dav.service else { panic!() };
        assert_eq!(endpoint, "https://host");
    }

    #[test]
    fn variables_of_aws_and_webdav_are_used() {
        let env = |name: &str| match name {
            "AWS_ENDPOINT_URL" => Some("http://e".to_owned()),
            "AWS_DEFAULT_REGION" => Some("r".to_owned()),
            "AWS_ACCESS_KEY_ID" => Some("i".to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some("hidden".to_owned()),
            "TALARIA_WEBDAV_USER" => Some("u".to_owned()),
            "TALARIA_WEBDAV_PASSWORD" => Some("p".to_owned()),
            _ => None,
        };
        let s3 = RepositoryUrl::parse("s3://b", &env).unwrap();
        let (endpoint, region) = (Some("http://e".into()), "r".into());
        let keys = Some(Keys { id: "i".into(), secret: "hidden".into(), token: None });
        assert!(!format!("{keys:?}").contains("hidden"));
        assert_eq!(s3.service, Service::S3 { bucket: "b".into(), endpoint, region, keys });
        let dav = RepositoryUrl::parse("webdav://h:1/x", &env).unwrap();
        let (user, password) = (Some("u".into()), Some("p".into()));
        assert_eq!(dav.service, Service::WebDav { endpoint: "http://h:1".into(), user, password });
    }

    #[test]
    fn mistakes_in_urls_are_named() {
        for (url, why) in [
            ("ftp://host/x", "ftp:// is not known"),
            ("s3://bucket/x", "region"),
            ("s3://", "no host or bucket"),
            ("sftp://host/x?region=y", "no option \"region\""),
            ("sftp://host/a/../b", "\"..\""),
            ("webdav://h/x?timeout=0", "from 1 to 3600"),
            ("webdav://h/x?timeout", "has no value"),
            ("webdav://h/x?list=never", "at-once or late"),
            ("webdav://h/%4", "hexadecimal"),
            ("webdav://h/%ff", "UTF-8"),
            ("s3://key@bucket/x?region=r", "environment"),
        ] {
            let said = parse(url).unwrap_err();
            assert!(said.contains(why), "{url}: {said}");
        }
        let said = parse("webdav://alice:secret@host/x").unwrap_err();
        assert!(said.contains("alice") && !said.contains("secret"), "{said}");
    }

    #[test]
    fn folders_are_no_urls() {
        for (name, is) in [("s3://b", true), ("ftp://b", true), ("/a://b", false), ("a/b", false)] {
            assert_eq!(is_url(name), is, "{name}");
        }
    }
}
