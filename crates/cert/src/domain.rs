//! The domain parameters of elliptic curves, as far as they are in keygrips.

/// p, a, b, g and n in hex, as libgcrypt writes them.
pub(crate) type Parameters = [&'static str; 5];

pub(crate) const NIST_P256: Parameters = [
    "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
    "ffffffff00000001000000000000000000000000fffffffffffffffffffffffc",
    "5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b",
    concat!(
        "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f",
        "9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
    ),
    "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
];

pub(crate) const NIST_P384: Parameters = [
    concat!(
        "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffff00000000",
        "00000000ffffffff",
    ),
    concat!(
        "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffff00000000",
        "00000000fffffffc",
    ),
    concat!(
        "b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d",
        "2a85c8edd3ec2aef",
    ),
    concat!(
        "04aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf5529",
        "6c3a545e3872760ab73617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8",
        "c00a60b1ce1d7e819d7a431d7c90ea0e5f",
    ),
    concat!(
        "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77a",
        "ecec196accc52973",
    ),
];

pub(crate) const NIST_P521: Parameters = [
    concat!(
        "01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ),
    concat!(
        "01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "fffffffffffffffffffffffffffffffffffffffffffffffffffc",
    ),
    concat!(
        "51953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e93",
        "7b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00",
    ),
    concat!(
        "0400c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77ef",
        "e75928fe1dc127a2ffa8de3348b3c1856a429bf97e7e31c2e5bd66011839296a789a3bc0045c8a5f",
        "b42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550b9013fad0761353c70",
        "86a272c24088be94769fd16650",
    ),
    concat!(
        "01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f",
        "966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409",
    ),
];

pub(crate) const BRAINPOOL_P256: Parameters = [
    "a9fb57dba1eea9bc3e660a909d838d726e3bf623d52620282013481d1f6e5377",
    "7d5a0975fc2c3057eef67530417affe7fb8055c126dc5c6ce94a4b44f330b5d9",
    "26dc5c6ce94a4b44f330b5d9bbd77cbf958416295cf7e1ce6bccdc18ff8c07b6",
    concat!(
        "048bd2aeb9cb7e57cb2c4b482ffc81b7afb9de27e1e3bd23c23a4453bd9ace3262547ef835c3dac4",
        "fd97f8461a14611dc9c27745132ded8e545c1d54c72f046997",
    ),
    "a9fb57dba1eea9bc3e660a909d838d718c397aa3b561a6f7901e0e82974856a7",
];

pub(crate) const BRAINPOOL_P384: Parameters = [
    concat!(
        "8cb91e82a3386d280f5d6f7e50e641df152f7109ed5456b412b1da197fb71123acd3a729901d1a71",
        "874700133107ec53",
    ),
    concat!(
        "7bc382c63d8c150c3c72080ace05afa0c2bea28e4fb22787139165efba91f90f8aa5814a503ad4eb",
        "04a8c7dd22ce2826",
    ),
    concat!(
        "04a8c7dd22ce28268b39b55416f0447c2fb77de107dcd2a62e880ea53eeb62d57cb4390295dbc994",
        "3ab78696fa504c11",
    ),
    concat!(
        "041d1c64f068cf45ffa2a63a81b7c13f6b8847a3e77ef14fe3db7fcafe0cbd10e8e826e03436d646",
        "aaef87b2e247d4af1e8abe1d7520f9c2a45cb1eb8e95cfd55262b70b29feec5864e19c054ff99129",
        "280e4646217791811142820341263c5315",
    ),
    concat!(
        "8cb91e82a3386d280f5d6f7e50e641df152f7109ed5456b31f166e6cac0425a7cf3ab6af6b7fc310",
        "3b883202e9046565",
    ),
];

pub(crate) const BRAINPOOL_P512: Parameters = [
    concat!(
        "aadd9db8dbe9c48b3fd4e6ae33c9fc07cb308db3b3c9d20ed6639cca703308717d4d9b009bc66842",
        "aecda12ae6a380e62881ff2f2d82c68528aa6056583a48f3",
    ),
    concat!(
        "7830a3318b603b89e2327145ac234cc594cbdd8d3df91610a83441caea9863bc2ded5d5aa8253aa1",
        "0a2ef1c98b9ac8b57f1117a72bf2c7b9e7c1ac4d77fc94ca",
    ),
    concat!(
        "3df91610a83441caea9863bc2ded5d5aa8253aa10a2ef1c98b9ac8b57f1117a72bf2c7b9e7c1ac4d",
        "77fc94cadc083e67984050b75ebae5dd2809bd638016f723",
    ),
    concat!(
        "0481aee4bdd82ed9645a21322e9c4c6a9385ed9f70b5d916c1b43b62eef4d0098eff3b1f78e2d0d4",
        "8d50d1687b93b97d5f7c6d5047406a5e688b352209bcb9f8227dde385d566332ecc0eabfa9cf7822",
        "fdf209f70024a57b1aa000c55b881f8111b2dcde494a5f485e5bca4bd88a2763aed1ca2b2fa8f054",
        "0678cd1e0f3ad80892",
    ),
    concat!(
        "aadd9db8dbe9c48b3fd4e6ae33c9fc07cb308db3b3c9d20ed6639cca70330870553e5c414ca92619",
        "418661197fac10471db1d381085ddaddb58796829ca90069",
    ),
];

pub(crate) const SECP256K1: Parameters = [
    "fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f",
    "",
    "07",
    concat!(
        "0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4",
        "655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8",
    ),
    "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
];

pub(crate) const ED25519: Parameters = [
    "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed",
    "01",
    "2dfc9311d490018c7338bf8688861767ff8ff5b2bebe27548a14b235eca6874a",
    concat!(
        "04216936d3cd6e53fec0a4e231fdd6dc5c692cc7609525a7b2c9562d608f25d51a66666666666666",
        "66666666666666666666666666666666666666666666666658",
    ),
    "1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3ed",
];

pub(crate) const CV25519: Parameters = [
    "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed",
    "01db41",
    "01",
    concat!(
        "04000000000000000000000000000000000000000000000000000000000000000920ae19a1b8a086",
        "b4e01edd2c7748d14c923d4d7e6d7c61b229e9c5a27eced3d9",
    ),
    "1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3ed",
];
