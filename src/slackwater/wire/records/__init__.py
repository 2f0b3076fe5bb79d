"""Record batches: encoding, decoding, compression, checksums, and bulk decoding to Arrow."""
