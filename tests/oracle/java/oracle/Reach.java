package oracle;

import java.lang.reflect.Field;
import java.lang.reflect.Method;

/** Members of Kafka that are not public. Another version may have renamed them: it says which. */
final class Reach {

    private Reach() { }

    static Method method(Class<?> owner, String name, Class<?>... parameters) {
        try {
            Method method = owner.getDeclaredMethod(name, parameters);
            method.setAccessible(true);
            return method;
        } catch (NoSuchMethodException missing) {
            throw new IllegalStateException("this Kafka's " + owner.getName() + " has no method " + name, missing);
        }
    }

    static Field field(Class<?> owner, String name) {
        try {
            Field field = owner.getDeclaredField(name);
            field.setAccessible(true);
            return field;
        } catch (NoSuchFieldException missing) {
            throw new IllegalStateException("this Kafka's " + owner.getName() + " has no field " + name, missing);
        }
    }
}
