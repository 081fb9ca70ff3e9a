# fish completion for perdure: commands and options from the binary's own table, keys, refs and tags from the store.

function __perdure_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] __complete -- $words "$current" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path "$current"
            case :folders
                __fish_complete_directories "$current"
            case '*'
                echo $line
        end
    end
end

complete -c perdure -f -a '(__perdure_complete)'
