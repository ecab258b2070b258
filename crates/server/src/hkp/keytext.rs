//! The certificates in the body of an upload.

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header;

use crate::answer::Refusal;
use crate::request::{Parameters, Request};
use crate::secret;
use crate::submission::{self, Submission};
use crate::turns::parsing;

/// Reads the certificates of an upload.
///
/// # Errors
///
/// [`Refusal::SecretKey`], and those of [`submission::read`].
pub(crate) async fn read(request: &Request, keytext: Bytes) -> Result<Submission, Refusal> {
    let length = keytext.len();
    let read = move || {
        secret::refuse(&keytext)?;
        submission::read(&keytext)
    };
    let mut submission = parsing(length, read).await?;
    submission.via = request.passed_on_by();
    Ok(submission)
}

/// Parts of a multipart body that are looked at.
const PARTS_MAX: usize = 64;

/// The submitted data: the whole body, the field `keytext` of a form, or the part with that name.
pub(crate) async fn keytext(request: &Request) -> Result<(Bytes, Parameters), Refusal> {
    let body = request.body.clone();
    match request.media().as_str() {
        "multipart/form-data" => {
            let boundary = request
                .header(header::CONTENT_TYPE)
                .and_then(|media| multer::parse_boundary(media).ok())
                .ok_or_else(|| Refusal::Malformed("the multipart body has no boundary".into()))?;
            let text = parsing(body.len(), move || part(body, boundary)).await?;
            Ok((text, Parameters::default()))
        }
        "application/pgp" | "application/pgp-keys" | "application/octet-stream" => {
            Ok((body, request.query().clone()))
        }
        _ => {
            parsing(body.len(), move || {
                let form = Parameters::parse(&body);
                let text = form.get("keytext").filter(|text| !text.trim().is_empty());
                let text = Bytes::from(text.ok_or_else(missing)?.to_owned());
                Ok((text, form))
            })
            .await
        }
    }
}

fn missing() -> Refusal {
    Refusal::Malformed("the field keytext is missing or empty".into())
}

/// The text or the file with certificates in a multipart body. A form may have both, and one of
/// them empty.
fn part(body: Bytes, boundary: String) -> Result<Bytes, Refusal> {
    let malformed = |error: multer::Error| Refusal::Malformed(error.to_string());
    let whole = futures_util::stream::iter([Ok::<_, std::io::Error>(body)]);
    let mut parts = multer::Multipart::new(whole, boundary);
    let found = async {
        for _ in 0..PARTS_MAX {
            let Some(part) = parts.next_field().await.map_err(malformed)? else { break };
            if matches!(part.name(), Some("keytext" | "keyfile")) {
                let text = part.bytes().await.map_err(malformed)?;
                if !text.is_empty() {
                    return Ok(text);
                }
            }
        }
        Err(missing())
    };
    // The whole body is here, so nothing waits.
    found.now_or_never().unwrap_or_else(|| Err(missing()))
}
