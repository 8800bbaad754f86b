# Kills process groups when its input ends, which is when the agent is gone.
# Input: lines of +GROUP and -GROUP
groups=' '
while read -r line; do
  case $line in
    +*) groups="$groups${line#+} " ;;
    -*) gone=${line#-}
      groups="${groups%% "$gone" *} ${groups#* "$gone" }" ;;
  esac
done
for group in $groups; do kill -KILL -"$group" 2>/dev/null; done
