"""Attacks: absurd words, strangers' files, damage, full disks and kills, against every command."""
