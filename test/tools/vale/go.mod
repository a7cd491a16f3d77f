module github.com/crossplane-mysql/crossplane-mysql/test/tools/vale

go 1.26.0

tool github.com/errata-ai/vale/v2/cmd/vale

require (
	github.com/Masterminds/goutils v1.1.1 // indirect
	github.com/Masterminds/semver/v3 v3.2.0 // indirect
	github.com/Masterminds/sprig/v3 v3.2.3 // indirect
	github.com/adrg/strutil v0.3.0 // indirect
	github.com/andybalholm/brotli v1.0.1 // indirect
	github.com/antonmedv/expr v1.12.0 // indirect
	github.com/atomicgo/cursor v0.0.1 // indirect
	github.com/bmatcuk/doublestar/v4 v4.6.0 // indirect
	github.com/d5/tengo/v2 v2.10.0 // indirect
	github.com/dsnet/compress v0.0.2-0.20210315054119-f66993602bf5 // indirect
	github.com/errata-ai/ini v1.63.0 // indirect
	github.com/errata-ai/regexp2 v1.7.0 // indirect
	github.com/errata-ai/vale/v2 v2.30.0 // indirect
	github.com/gobwas/glob v0.2.3 // indirect
	github.com/golang/snappy v0.0.4 // indirect
	github.com/google/uuid v1.1.1 // indirect
	github.com/gookit/color v1.4.2 // indirect
	github.com/huandu/xstrings v1.3.3 // indirect
	github.com/imdario/mergo v0.3.11 // indirect
	github.com/jdkato/twine v0.8.0 // indirect
	github.com/karrick/godirwalk v1.16.1 // indirect
	github.com/klauspost/compress v1.11.4 // indirect
	github.com/klauspost/pgzip v1.2.5 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/mattn/go-runewidth v0.0.13 // indirect
	github.com/mholt/archiver/v3 v3.5.1 // indirect
	github.com/mitchellh/copystructure v1.0.0 // indirect
	github.com/mitchellh/mapstructure v1.4.0 // indirect
	github.com/mitchellh/reflectwalk v1.0.0 // indirect
	github.com/montanaflynn/stats v0.7.1 // indirect
	github.com/niklasfasching/go-org v1.6.6 // indirect
	github.com/nwaples/rardecode v1.1.0 // indirect
	github.com/olekukonko/tablewriter v0.0.4 // indirect
	github.com/otiai10/copy v1.7.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.2 // indirect
	github.com/pterm/pterm v0.12.33 // indirect
	github.com/remeh/sizedwaitgroup v1.0.0 // indirect
	github.com/rivo/uniseg v0.2.0 // indirect
	github.com/rogpeppe/go-internal v1.16.0 // indirect
	github.com/shopspring/decimal v1.2.0 // indirect
	github.com/spf13/cast v1.3.1 // indirect
	github.com/spf13/pflag v1.0.5 // indirect
	github.com/ulikunitz/xz v0.5.10 // indirect
	github.com/xi2/xz v0.0.0-20171230120015-48954b6210f8 // indirect
	github.com/xo/terminfo v0.0.0-20210125001918-ca9a967f8778 // indirect
	github.com/yuin/goldmark v1.5.6 // indirect
	golang.org/x/crypto v0.14.0 // indirect
	golang.org/x/exp v0.0.0-20231006140011-7918f672742d // indirect
	golang.org/x/net v0.17.0 // indirect
	golang.org/x/sys v0.26.0 // indirect
	golang.org/x/term v0.13.0 // indirect
	gopkg.in/neurosnap/sentences.v1 v1.0.7 // indirect
	gopkg.in/yaml.v2 v2.4.0 // indirect
)
