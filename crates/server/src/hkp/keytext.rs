//! The certificates in the body of an upload.

use bytes::Bytes;
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

/// The submitted data: the whole body, the field `keytext` of a form, or the part with that name.
pub(crate) async fn keytext(request: &Request) -> Result<(Bytes, Parameters), Refusal> {
    let missing = || Refusal::Malformed("the field keytext is missing or empty".into());
    match request.media().as_str() {
        "multipart/form-data" => {
            let boundary = request
                .header(header::CONTENT_TYPE)
                .and_then(|media| multer::parse_boundary(media).ok())
                .ok_or_else(|| Refusal::Malformed("the multipart body has no boundary".into()))?;
            let body = request.body.clone();
            let stream = http_body_util::BodyStream::new(http_body_util::Full::new(body));
            let stream = futures_util::StreamExt::filter_map(stream, |frame| async move {
                frame.ok().and_then(|frame| frame.into_data().ok()).map(Ok::<_, std::io::Error>)
            });
            let mut parts = multer::Multipart::new(stream, boundary);
            let malformed = |error: multer::Error| Refusal::Malformed(error.to_string());
            let mut text = Bytes::new();
            while let Some(part) = parts.next_field().await.map_err(malformed)? {
                // A form may have both, a text field and a file.
                if matches!(part.name(), Some("keytext" | "keyfile")) && text.is_empty() {
                    text = part.bytes().await.map_err(malformed)?;
                }
            }
            if text.is_empty() { Err(missing()) } else { Ok((text, Parameters::default())) }
        }
        "application/pgp-keys" | "application/octet-stream" => {
            Ok((request.body.clone(), request.query().clone()))
        }
        _ => {
            let form = request.form();
            let text = form.get("keytext").filter(|text| !text.trim().is_empty());
            let text = Bytes::from(text.ok_or_else(missing)?.to_owned());
            Ok((text, form))
        }
    }
}
