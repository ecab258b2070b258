//! The list of operations.

use sop::{SOP, ops};
use talaria_message::openpgp;

use crate::armor::{Armor, Dearmor};
use crate::certify::{CertifyUserId, ValidateUserId};
use crate::decrypt::Decrypt;
use crate::encrypt::Encrypt;
use crate::error::Result;
use crate::generate::GenerateKey;
use crate::inline::{InlineDetach, InlineSign, InlineVerify};
use crate::maintain::{ChangeKeyPassword, ExtractCert, MergeCerts, RevokeKey};
use crate::material::{Certs, Keys, Sigs};
use crate::sign::Sign;
use crate::talaria::Talaria;
use crate::update::UpdateKey;
use crate::verify::Verify;

impl<'s> SOP<'s> for Talaria {
    type Keys = Keys<'s>;
    type Certs = Certs<'s>;
    type Sigs = Sigs<'s>;

    fn sopv_version(&'s self) -> Result<&'static str> {
        Ok("1.0")
    }

    fn version(&self) -> Result<Box<dyn ops::Version<'_>>> {
        Ok(Box::new(Version))
    }

    fn generate_key(&'s self) -> Result<Box<dyn ops::GenerateKey<'s, Self, Keys<'s>> + 's>> {
        Ok(Box::new(GenerateKey::new(self)))
    }

    fn change_key_password(
        &'s self,
    ) -> Result<Box<dyn ops::ChangeKeyPassword<'s, Self, Keys<'s>> + 's>> {
        Ok(Box::new(ChangeKeyPassword::new(self)))
    }

    fn revoke_key(&'s self) -> Result<Box<dyn ops::RevokeKey<'s, Self, Certs<'s>, Keys<'s>> + 's>> {
        Ok(Box::new(RevokeKey::new(self)))
    }

    fn extract_cert(
        &'s self,
    ) -> Result<Box<dyn ops::ExtractCert<'s, Self, Certs<'s>, Keys<'s>> + 's>> {
        Ok(Box::new(ExtractCert::new(self)))
    }

    fn update_key(&'s self) -> Result<Box<dyn ops::UpdateKey<'s, Self, Certs<'s>, Keys<'s>> + 's>> {
        Ok(Box::new(UpdateKey::new(self)))
    }

    fn merge_certs(&'s self) -> Result<Box<dyn ops::MergeCerts<'s, Self, Certs<'s>> + 's>> {
        Ok(Box::new(MergeCerts::new(self)))
    }

    fn certify_userid(
        &'s self,
    ) -> Result<Box<dyn ops::CertifyUserID<'s, Self, Certs<'s>, Keys<'s>> + 's>> {
        Ok(Box::new(CertifyUserId::new(self)))
    }

    fn validate_userid(&'s self) -> Result<Box<dyn ops::ValidateUserID<'s, Self, Certs<'s>> + 's>> {
        Ok(Box::new(ValidateUserId::new(self)))
    }

    fn sign(&'s self) -> Result<Box<dyn ops::Sign<'s, Self, Keys<'s>, Sigs<'s>> + 's>> {
        Ok(Box::new(Sign::new(self)))
    }

    fn verify(&'s self) -> Result<Box<dyn ops::Verify<'s, Self, Certs<'s>, Sigs<'s>> + 's>> {
        Ok(Box::new(Verify::new(self)))
    }

    fn encrypt(&'s self) -> Result<Box<dyn ops::Encrypt<'s, Self, Certs<'s>, Keys<'s>> + 's>> {
        Ok(Box::new(Encrypt::new(self)))
    }

    fn decrypt(&'s self) -> Result<Box<dyn ops::Decrypt<'s, Self, Certs<'s>, Keys<'s>> + 's>> {
        Ok(Box::new(Decrypt::new(self)))
    }

    fn armor(&'s self) -> Result<Box<dyn ops::Armor<'s> + 's>> {
        Ok(Box::new(Armor))
    }

    fn dearmor(&'s self) -> Result<Box<dyn ops::Dearmor<'s> + 's>> {
        Ok(Box::new(Dearmor))
    }

    fn inline_detach(&'s self) -> Result<Box<dyn ops::InlineDetach<'s, Sigs<'s>> + 's>> {
        Ok(Box::new(InlineDetach::new(self)))
    }

    fn inline_verify(&'s self) -> Result<Box<dyn ops::InlineVerify<'s, Self, Certs<'s>> + 's>> {
        Ok(Box::new(InlineVerify::new(self)))
    }

    fn inline_sign(&'s self) -> Result<Box<dyn ops::InlineSign<'s, Self, Keys<'s>> + 's>> {
        Ok(Box::new(InlineSign::new(self)))
    }
}

struct Version;

impl ops::Version<'_> for Version {
    fn frontend(&self) -> Result<ops::VersionInfo> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(ops::VersionInfo { name: "talaria-sop".to_owned(), version })
    }

    fn backend(&self) -> Result<ops::VersionInfo> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(ops::VersionInfo { name: "talaria-message".to_owned(), version })
    }

    fn extended(&self) -> Result<String> {
        let backend = self.backend()?;
        Ok(format!("{backend}\nsequoia-openpgp {}", openpgp::VERSION))
    }
}
