"""The trusted core of the proof: its own reader, language, walks and comparison."""
