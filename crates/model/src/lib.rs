//! The decoder-only GPT; knows no encoding by name
